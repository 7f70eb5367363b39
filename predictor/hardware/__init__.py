"""One catalogue of hardware: platforms, accelerators, rooflines, MIG geometry."""
