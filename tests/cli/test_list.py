"""`dualtta list`."""

import json

from dualtta.cli.parser import first_line
from dualtta.methods import METHODS


def test_list_shows_methods_and_views(cli):
    listed = json.loads(cli("list", "--json").stdout)
    assert listed["methods"]["dualtta"]["tau_sp"] == 0.7
    assert set(listed["views"]) >= {"patch", "style"}
    assert listed["models"]["vit_base_patch16_224"] == "ViT-B/16, LayerNorm"
    assert "colored_digits" in listed["datasets"]
    table = cli("list").stdout
    assert "eata_dual" in table
    assert "style" in table


def test_the_first_line_of_every_methods_docstring_is_a_sentence():
    assert all(first_line(method).endswith(".") for method in METHODS.values())
