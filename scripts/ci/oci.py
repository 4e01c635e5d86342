"""Makes an image of a folder by the last stage of a Dockerfile: oci.py DOCKERFILE ROOT BINARY TAG FILE LEFT-OUT...

FILE is an OCI image layout in a tar archive, with the manifest.json that older versions of `docker load` read. Of the
instructions only those of this project's Dockerfile are known; another one is an error.
"""

import fnmatch
import gzip
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from datetime import datetime, timezone

NANOSECONDS = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9}
LIST_OR_SHELL = re.compile(r"\s*\[")


def die(fault):
    raise SystemExit(f"error: the image: {fault}")


def last_stage(path):
    """Instructions after the last FROM as pairs of name and arguments, lines joined, comments left out."""
    with open(path, encoding="utf-8") as file:
        lines = [line for line in file.read().splitlines() if not line.lstrip().startswith("#")]
    instructions = []
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            name, _, arguments = line.strip().partition(" ")
            instructions.append((name.upper(), arguments.strip()))
    starts = [number for number, (name, _) in enumerate(instructions) if name == "FROM"]
    if not starts:
        die(f"{path} has no FROM")
    return instructions[starts[-1] + 1 :]


def command(arguments):
    """A command in either form: a list, or a line for the shell."""
    return json.loads(arguments) if LIST_OR_SHELL.match(arguments) else ["/bin/sh", "-c", arguments]


def duration(text):
    """Nanoseconds of a duration such as 5s."""
    number, unit = re.fullmatch(r"(\d+)(ms|s|m)", text).groups()
    return int(number) * NANOSECONDS[unit]


def health_check(arguments):
    options, test = {}, arguments
    while match := re.match(r"--([a-z-]+)=(\S+)\s+", test):
        options[match[1]], test = match[2], test[match.end() :]
    check = {"Test": ["CMD", *command(test.removeprefix("CMD").strip())]}
    for option, field in [("interval", "Interval"), ("timeout", "Timeout"), ("start-period", "StartPeriod")]:
        if option in options:
            check[field] = duration(options.pop(option))
    check["Retries"] = int(options.pop("retries", "0"))
    if options:
        die(f"HEALTHCHECK has unknown options: {sorted(options)}")
    return check


def copy(root, arguments, binary):
    """The only file that comes from another stage is the program."""
    source, source_path, target = arguments.split()
    if source != "--from=build" or os.path.basename(source_path) != os.path.basename(target):
        die(f"COPY {arguments} is not known")
    target = os.path.join(root, target.lstrip("/"))
    shutil.copyfile(binary, target)
    os.chmod(target, 0o755)


def build(root, instructions, binary):
    """Carries the instructions out in the folder; returns the configuration of the image."""
    config = {"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}
    for name, arguments in instructions:
        match name:
            case "RUN":
                subprocess.run(["chroot", root, *command(arguments)], check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
            case "COPY":
                copy(root, arguments, binary)
            case "ENV":
                config["Env"] += shlex.split(arguments)
            case "USER":
                config["User"] = arguments
            case "WORKDIR":
                config["WorkingDir"] = arguments
            case "VOLUME":
                config["Volumes"] = {path: {} for path in arguments.split()}
            case "EXPOSE":
                config["ExposedPorts"] = {f"{port}/tcp": {} for port in arguments.split()}
            case "HEALTHCHECK":
                config["Healthcheck"] = health_check(arguments)
            case "ENTRYPOINT":
                config["Entrypoint"] = command(arguments)
            case "CMD":
                config["Cmd"] = command(arguments)
            case _:
                die(f"the instruction {name} is not known")
    return config


def pack(root, left_out, created):
    """All files of the folder as a tar archive, in a fixed order and with fixed times."""

    def keep(entry):
        path = entry.name.removeprefix("./")
        if any(fnmatch.fnmatch(path, pattern) for pattern in left_out):
            return None
        entry.mtime = min(int(entry.mtime), created)
        return entry

    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in sorted(os.listdir(root)):
            archive.add(os.path.join(root, name), arcname=name, filter=keep)
    return content.getvalue()


class Layout:
    """Blobs by their digests, in the archive."""

    def __init__(self, archive, created):
        self.archive = archive
        self.created = created

    def add(self, name, content):
        entry = tarfile.TarInfo(name)
        entry.size, entry.mtime, entry.mode = len(content), self.created, 0o644
        self.archive.addfile(entry, io.BytesIO(content))

    def blob(self, media_type, content):
        digest = hashlib.sha256(content).hexdigest()
        self.add(f"blobs/sha256/{digest}", content)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    def json(self, media_type, value):
        return self.blob(media_type, json.dumps(value, indent=1).encode())


def write(path, layer, config, tag, created):
    base = "application/vnd.oci.image"
    name, _, version = tag.partition(":")
    with tarfile.open(path, mode="w", format=tarfile.GNU_FORMAT) as archive:
        layout = Layout(archive, created)
        packed = layout.blob(f"{base}.layer.v1.tar+gzip", gzip.compress(layer, compresslevel=6, mtime=created))
        when = datetime.fromtimestamp(created, timezone.utc).isoformat().replace("+00:00", "Z")
        config["Labels"] = {"org.opencontainers.image.title": name, "org.opencontainers.image.version": version,
                            "org.opencontainers.image.licenses": "Apache-2.0"}
        image = layout.json(f"{base}.config.v1+json", {
            "created": when, "architecture": "amd64", "os": "linux", "config": config,
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
            "history": [{"created": when, "created_by": "scripts/image"}],
        })
        manifest = layout.json(f"{base}.manifest.v1+json", {
            "schemaVersion": 2, "mediaType": f"{base}.manifest.v1+json", "config": image, "layers": [packed],
        })
        manifest["annotations"] = {"io.containerd.image.name": f"docker.io/library/{tag}",
                                   "org.opencontainers.image.ref.name": version}
        layout.add("index.json", json.dumps({"schemaVersion": 2, "manifests": [manifest]}).encode())
        layout.add("oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        paths = ["blobs/" + one["digest"].replace(":", "/") for one in (image, packed)]
        layout.add("manifest.json", json.dumps([{"Config": paths[0], "RepoTags": [tag], "Layers": paths[1:]}]).encode())


def main():
    dockerfile, root, binary, tag, path, *left_out = sys.argv[1:]
    created = int(os.environ["SOURCE_DATE_EPOCH"])
    config = build(root, last_stage(dockerfile), binary)
    write(path, pack(root, left_out, created), config, tag, created)


main()
