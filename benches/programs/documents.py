"""Applies a tree of documents to three nodes by the command line: first, again without a change, changed and pruned,
released. Says how long each took.

It is the pipeline test with a release build; tests/it/command_line/pipeline.rs says what the documents are.
"""

import os

from nodes import ROOT


def arguments(parser):
    parser.add_argument("documents", type=int, nargs="?", default=500)


def main(options):
    environment = dict(os.environ, THUBAN_IT_DOCUMENTS=str(options.documents), THUBAN_PROFILE="release")
    test = os.path.join(ROOT, "scripts", "test")
    os.execve(test, [test, "--test", "it", "a_tree_is_applied", "--", "--nocapture"], environment)
