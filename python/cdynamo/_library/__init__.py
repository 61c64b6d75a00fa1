"""Nodes that call PyTorch or Python where the operator table has no operator, one module for each kind of call."""
