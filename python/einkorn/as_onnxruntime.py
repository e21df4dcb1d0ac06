"""Runs an unchanged program with ``import onnxruntime`` meaning einkorn.onnxruntime.

    python -m einkorn.as_onnxruntime PROGRAM.py ARGUMENTS..
    python -m einkorn.as_onnxruntime -m MODULE ARGUMENTS..
    python -m einkorn.as_onnxruntime -c CODE ARGUMENTS..

It holds for Python processes that the program starts, too. In a program of one's own: ``import einkorn.as_onnxruntime;
einkorn.as_onnxruntime.install()`` before onnxruntime is imported.
"""
import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import runpy
import sys

_PREFIX, _OURS = "onnxruntime", "einkorn.onnxruntime"


class _Distribution(importlib.metadata.Distribution):
    """What programs ask about the package onnxruntime, such as its version."""

    def read_text(self, filename):
        from .onnxruntime import __version__
        if filename in ("METADATA", "PKG-INFO"):
            return "Metadata-Version: 2.1\nName: onnxruntime\nVersion: %s\n" % __version__
        return None

    def locate_file(self, path):
        return os.path.join(os.path.dirname(os.path.abspath(__file__)), path)


class _Loader(importlib.abc.Loader):
    """Gives our module for onnxruntime's name: one object under both names."""

    def create_module(self, spec):
        self.module = importlib.import_module(_OURS + spec.name[len(_PREFIX):])
        self.spec = self.module.__spec__
        return self.module

    def exec_module(self, module):
        module.__spec__ = self.spec


class _Finder(importlib.metadata.DistributionFinder):
    def find_spec(self, name, path=None, target=None):
        if name != _PREFIX and not name.startswith(_PREFIX + "."):
            return None
        ours = importlib.util.find_spec(_OURS + name[len(_PREFIX):])
        if ours is None:
            raise ModuleNotFoundError("%s is not part of einkorn.onnxruntime (docs/onnxruntime.md lists what is)"
                                      % name, name=name)
        return importlib.machinery.ModuleSpec(name, _Loader(), origin=ours.origin,
                                              is_package=ours.submodule_search_locations is not None)

    def find_distributions(self, context=importlib.metadata.DistributionFinder.Context()):
        if context.name is None or context.name.replace("_", "-").lower() == _PREFIX:
            yield _Distribution()


def install(children=True):
    """Makes onnxruntime mean einkorn.onnxruntime in this process, and in Python processes that it starts."""
    if any(isinstance(f, _Finder) for f in sys.meta_path):
        return
    loaded = sys.modules.get(_PREFIX)
    if loaded is not None and loaded.__name__ == _PREFIX:
        raise ImportError("onnxruntime is imported already: install einkorn.as_onnxruntime before")
    sys.meta_path.insert(0, _Finder())
    if children:
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_children")
        paths = [folder] + [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p and p != folder]
        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        os.environ["PYTHONPATH"] = os.pathsep.join(paths + ([] if package in paths else [package]))


def main(words):
    """Runs a program as `python` would."""
    if not words or words[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if words else 2
    install()
    if words[0] in ("-m", "-c") and len(words) < 2:
        print("%s needs a value" % words[0], file=sys.stderr)
        return 2
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv = ["-c"] + words[2:]
        sys.path[0] = ""
        import types
        program = types.ModuleType("__main__")
        sys.modules["__main__"] = program
        exec(compile(words[1], "<string>", "exec"), program.__dict__)
    else:
        sys.argv = words
        sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
        runpy.run_path(words[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    from einkorn.as_onnxruntime import main  # under its own name, not as __main__
    sys.exit(main(sys.argv[1:]))
