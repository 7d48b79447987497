"""Checking and preparing datasets on disk."""
