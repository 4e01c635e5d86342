"""Draws sentences from the book for a reader who marks those that need a second reading.

Usage: sentences.py [SEED]

Prints 25 sentences of each of six subjects, and below the mean number of words and the number of sentences with more
than 25 words, over all sentences of the pages. The seed is fixed, so that two readers get the same sentences.
"""

import pathlib
import random
import re
import sys

SEED = 45
DRAWN = 25
SUBJECTS = {
    "README": ["README.md", "docs/README.md", "docs/compare.md"],
    "start": ["docs/start.md", "docs/three-nodes.md"],
    "concepts": ["docs/concepts.md"],
    "operating": [
        f"docs/{page}.md"
        for page in (
            "cluster members backup restart upgrade sites capacity full-disk lost-password dead-disk lost-majority "
            "removed-node full-log wrong-time traces alarms alarms-cluster alarms-node"
        ).split()
    ],
    "security": [f"docs/{page}.md" for page in "security access access-keys encrypt tls audit budgets".split()],
    "xds": [f"docs/{page}.md" for page in "xds xds-rules xds-status xds-languages connect-envoy connect-grpc".split()],
}


def sentences(text):
    """The sentences of a page: paragraphs and items of lists, without blocks, tables and headings."""
    text = re.sub(r"(?ms)^```.*?^```$", "", text)
    text = re.sub(r"(?s)<!--.*?-->", "", text)
    units, unit = [], []
    for line in [*text.splitlines(), ""]:
        is_other = line.startswith(("#", "|", "!", "      ", "[English]"))
        is_item = re.match(r" *(?:[*-]|\d+\.) ", line)
        if not line.strip() or is_other or is_item:
            units.append(" ".join(unit))
            unit = []
        if line.strip() and not is_other:
            unit.append(re.sub(r"^ *(?:[*-]|\d+\.) ", "", line).strip())
    found = []
    for unit in units:
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", unit).replace("**", "")
        # Not behind a number of a list, nor inside of code.
        parts = re.split(r"(?<=[a-z0-9)`%\"][.:?!]) (?=[A-Z`\d])", plain)
        found += [part for part in parts if len(part.split()) > 3]
    return found


def main():
    """Prints the sentences and their counts."""
    root = pathlib.Path(__file__).parents[3]
    draw = random.Random(int(sys.argv[1]) if sys.argv[1:] else SEED)
    rows = []
    for subject, pages in SUBJECTS.items():
        pool = [one for page in pages for one in sentences((root / page).read_text(encoding="utf-8"))]
        words = [len(one.split()) for one in pool]
        long = sum(count > 25 for count in words)
        rows.append(f"{subject:10} {len(pool):4} sentences, mean {sum(words) / len(pool):4.1f} words, {long} over 25")
        print(f"\n## {subject}")
        for number, one in enumerate(draw.sample(pool, DRAWN), 1):
            print(f"{number:3} {one}")
    print("\n" + "\n".join(rows))


if __name__ == "__main__":
    main()
