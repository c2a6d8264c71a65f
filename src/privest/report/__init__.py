"""Results as tables and figures. No formulas here: numbers come from the library."""
