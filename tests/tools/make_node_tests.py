"""Writes the single-node tests that come with the PyPI package onnx as
FOLDER/node/NAME/{model.onnx,test_data_set_0/*.pb}.

    make_node_tests.py FOLDER

The package's own command (backend-test-tools generate-data) covers only its whole models; this calls its writer for
each node test. Tests that it cannot write are named on stderr.
"""
import argparse
import sys

import onnx.backend.test.cmd_tools as tools
from onnx.backend.test.loader import load_node_model_tests

written = 0
for case in load_node_model_tests():
    tools.model_test.collect_testcases = lambda case=case: [case]
    try:
        tools.generate_data(argparse.Namespace(output=sys.argv[1]))
        written += 1
    except Exception as e:  # not a model that can be written
        print(f"{case.name}: {e!r}"[:200], file=sys.stderr)
print(f"{written} node tests written")
sys.exit(written == 0)
