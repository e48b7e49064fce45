"""One conf per algorithm with settings that suit many tasks; the confs of the zoo import them by `import_config`."""
