"""Parts of settings that several confs of the zoo import."""
