"""The command line. It only reads options and shows results; everything else is the layers' below."""
