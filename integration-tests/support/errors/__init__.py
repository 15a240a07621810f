"""Errors that users can cause, each with its text."""
