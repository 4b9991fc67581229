"""The build hook of the packages that import a sibling: it turns the pins of `pyproject.toml` into dependencies.

For `autograd-core = { path = "../autograd_core", version = "0.1.0" }` it checks that the sibling in the checkout has
that version and then declares two dependencies, `autograd-core==0.1.0` and `autograd-core @ file://…/autograd_core`.
Installers accept the pair and take the path, so that no index is asked for a name a stranger could own; `pip check`
reads the pin.

A path means nothing outside this checkout. With the environment variable `SIBLINGS=version` the pin is declared alone:
for wheels and source archives that travel. `hatch build` sets it by itself.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.metadata.core import ProjectMetadata
from hatchling.metadata.plugin.interface import MetadataHookInterface
from hatchling.plugin.manager import PluginManager


class SiblingsHook(MetadataHookInterface):
    """Writes `dependencies`: the third-party ones of the hook's table, then the pinned siblings."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `metadata["dependencies"]`; a sibling that is absent or of another version is a `ValueError`."""
        mode = os.environ.get("SIBLINGS", "path")
        if mode not in ("path", "version"):
            raise ValueError(
                f"SIBLINGS is 'path' (the default) or 'version'; got {mode!r}. Unset it or choose one of the two."
            )
        owner = metadata["name"]
        dependencies = list(self.config["dependencies"])
        for name, pin in self.config["siblings"].items():
            folder = Path(self.root, pin["path"]).resolve()
            if not (folder / "pyproject.toml").is_file():
                raise ValueError(
                    f"{owner} is built beside its siblings; {name} is not in {folder}. "
                    "Build from a whole checkout, or from an archive made by `hatch build`."
                )
            found = ProjectMetadata(str(folder), PluginManager()).hatch.version.cached
            if found != pin["version"]:
                raise ValueError(
                    f"{owner} pins {name}=={pin['version']}; the sibling in {folder} is {found}. "
                    f"Change the pin in {owner}'s pyproject.toml and the version in one commit."
                )
            dependencies.append(f"{name}=={pin['version']}")
            if mode == "path":
                dependencies.append(f"{name} @ {folder.as_uri()}")
        metadata["dependencies"] = dependencies
