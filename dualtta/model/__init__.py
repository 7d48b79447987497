"""The model as adaptation uses it: parameters, norm layers, BatchNorm statistics, forward passes."""
