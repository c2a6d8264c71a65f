"""The documentation site: pages, executed gallery, references made from the code.

`make docs` builds it into out/site, offline, with warnings as errors.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import privest  # noqa: E402

project, author = "privest", "the privest developers"
version = release = privest.__version__
copyright = "the privest developers"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_gallery.gen_gallery",
    "sphinx_copybutton",
    "docstrings",
    "references",
]
root_doc = "index"
exclude_patterns = ["_ext", "gallery", "*.py"]
nitpicky = False
myst_heading_anchors = 4
myst_enable_extensions = ["deflist", "colon_fence"]
suppress_warnings = ["config.cache"]  # the gallery's own functions are no cacheable settings

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_preserve_defaults = True

html_theme = "pydata_sphinx_theme"
html_title = "privest"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_show_sourcelink = False
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
}


def room_for_labels(gallery_conf, name):
    import matplotlib as mpl

    mpl.rcParams["figure.constrained_layout.use"] = True


sphinx_gallery_conf = {
    "reset_modules": ("matplotlib", room_for_labels),
    "examples_dirs": str(HERE / "gallery"),
    "gallery_dirs": "auto_gallery",
    "filename_pattern": "plot_",
    "ignore_pattern": "__init__",
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,  # that page loads scripts from elsewhere
    "remove_config_comments": True,
    "within_subsection_order": "FileNameSortKey",
    "matplotlib_animations": False,
    "abort_on_example_error": True,
}
