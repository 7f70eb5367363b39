"""The one place where Berth's version stands."""

VERSION = "0.1.0"
