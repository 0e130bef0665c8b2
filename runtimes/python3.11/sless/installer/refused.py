class Refused(Exception):
    """The manifests can't be installed; the text says why and what to do."""
