"""A classifier's parts that adaptation needs: parameters, norm layers, statistics, forward passes."""
