"""The models of tests/models, a module per family; kit.py is the builder, reference_ops.py the missing references."""
