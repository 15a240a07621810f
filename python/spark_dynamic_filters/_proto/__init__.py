"""Generated from proto/ by `make stubs`; not to be edited."""
