"""Completes and checks the SBOM that scripts/sbom has cargo-cyclonedx make: sbom.py WORK FOLDER.

WORK has bom.json, judged.json (cargo-deny), metadata.json and linked (cargo tree); FOLDER gets the results.
"""

import json
import os
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

# C or C++ code in a crate: name, version (of the crate), licences, and the path of its licence texts in the crate.
LIBRARIES = {
    "librocksdb-sys": ("rocksdb", "Apache-2.0 AND BSD-3-Clause", ["rocksdb/LICENSE.Apache", "rocksdb/LICENSE.leveldb"]),
    "tikv-jemalloc-sys": ("jemalloc", "BSD-2-Clause", ["jemalloc/COPYING"]),
    "lz4-sys": ("lz4", "BSD-2-Clause", ["liblz4/lib/LICENSE"]),
}
TEXTS = ("license", "licence", "copying", "notice", "copyright", "unlicense")


def read(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)


def die(fault):
    raise SystemExit(f"error: the SBOM: {fault}")


def licence(component):
    """As an expression of SPDX, whichever way it is written."""
    parts = [one.get("expression") or one["license"].get("id") or one["license"]["name"] for one in component.get("licenses", [])]
    if len(parts) != 1:
        die(f"{component['name']} has {len(parts)} licences")
    return parts[0]


def names(expression):
    """The licences of an expression, in any order: cargo-deny lists them one by one."""
    words = expression.replace("(", " ").replace(")", " ").replace("/", " ").split()
    return {word for word in words if word not in ("AND", "OR", "WITH")} - {"LLVM-exception"}


def add_libraries(bom):
    for component in bom["components"]:
        if component["name"] in LIBRARIES:
            name, expression, _ = LIBRARIES[component["name"]]
            version = component["version"].split("+")[-1].removeprefix("lz4-")
            component["components"] = [
                {"type": "library", "name": name, "version": version, "licenses": [{"expression": expression}]}
            ]


def is_ours(name):
    """True for the package and the crates of its workspace, which are one component."""
    return name == "thuban" or name.startswith("thuban-")


def join_parts(bom, own):
    """Gives the program the dependencies of the crates of its workspace."""
    parts = {one["bom-ref"] for one in bom["components"] if is_ours(one["name"])}
    rows = {row["ref"]: row for row in bom["dependencies"]}
    wanted = {one for ref in parts | {own["bom-ref"]} for one in rows.get(ref, {}).get("dependsOn", [])}
    rows[own["bom-ref"]]["dependsOn"] = sorted(wanted - parts)


def keep_linked(bom, linked):
    """Leaves the crates that cargo links: cargo-cyclonedx also counts macros and what no feature asks for."""
    own = bom["metadata"]["component"]
    join_parts(bom, own)
    wanted = {crate for crate in (tuple(line.split(" ")[:2]) for line in linked) if not is_ours(crate[0])}
    bom["components"] = [one for one in bom["components"] if (one["name"], one["version"]) in wanted]
    if missing := wanted - {(one["name"], one["version"]) for one in bom["components"]}:
        die(f"left out: {sorted(missing)}")
    kept = {one["bom-ref"] for one in bom["components"]} | {own["bom-ref"]}
    rows = [row for row in bom["dependencies"] if row["ref"] in kept]
    for row in rows:
        row["dependsOn"] = [one for one in row.get("dependsOn", []) if one in kept]
    bom["dependencies"] = rows


def check(bom, judged):
    """The licences are those that were judged."""
    of_crate = {}
    for key, row in judged.items():
        name, version = key.split(" ")[:2]
        of_crate[name, version] = {one.removesuffix(" WITH LLVM-exception") for one in row["licenses"]}
    for component in bom["components"]:
        crate = component["name"], component["version"]
        if crate not in of_crate:
            die(f"cargo-deny does not know {crate}")
        if of_crate[crate] != names(licence(component)):
            die(f"{crate} is {licence(component)} here, and {sorted(of_crate[crate])} to cargo-deny")


def texts(folder):
    """The files of licences in a folder of sources."""
    found = [name for name in sorted(os.listdir(folder)) if name.lower().startswith(TEXTS)]
    return [name for name in found if os.path.isfile(os.path.join(folder, name))]


def write_texts(bom, metadata, path):
    """Each text once, behind the list of who is under it; returns the crates that bring none."""
    folders = {(one["name"], one["version"]): os.path.dirname(one["manifest_path"]) for one in metadata["packages"]}
    without, numbers, rows = [], {}, []
    for component in bom["components"]:
        crate = component["name"], component["version"]
        own = []
        for name in texts(folders[crate]) + LIBRARIES.get(crate[0], ("", "", []))[2]:
            with open(os.path.join(folders[crate], name), encoding="utf-8", errors="replace") as file:
                own.append(numbers.setdefault(file.read().strip(), len(numbers) + 1))
        if not own:
            without.append(crate[0])
        shown = ", ".join(f"text {number}" for number in own) or "brings no text"
        rows.append(f"{crate[0]} {crate[1]}: {licence(component)}; {shown}; https://crates.io/crates/{crate[0]}\n")
    with open(path, "w", encoding="utf-8") as file:
        file.write("The binary of Thuban contains the software below. The texts of its licences follow the list.\n\n")
        file.writelines(rows)
        for text, number in numbers.items():
            file.write(f"\n{'=' * 78}\nText {number}\n\n{text}\n")
    return without


def main():
    work, folder = sys.argv[1:]
    bom = read(work, "bom.json")
    with open(os.path.join(work, "linked"), encoding="utf-8") as file:
        linked = file.read().splitlines()
    keep_linked(bom, linked)
    check(bom, read(work, "judged.json"))
    add_libraries(bom)
    # The build folder is irrelevant to readers and differs each time.
    text = json.dumps(bom, indent=1).replace(f"file://{os.path.realpath(work)}", "file:///thuban")
    if fault := JsonStrictValidator(SchemaVersion.V1_5).validate_str(text):
        die(fault)
    with open(os.path.join(folder, "thuban.cdx.json"), "w", encoding="utf-8") as file:
        file.write(text + "\n")
    without = write_texts(bom, read(work, "metadata.json"), os.path.join(folder, "third-party-licenses.txt"))
    print(f"==> SBOM: {len(bom['components'])} crates and {len(LIBRARIES)} libraries, licences as cargo-deny judges them;"
          f" {len(without)} crates bring no text of their licence: {', '.join(without) or 'none'}", file=sys.stderr)


main()
