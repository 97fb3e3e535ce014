"""What the program is made of, as CycloneDX 1.5 in JSON: release/sbom.py TRIPLE > bonfire.cdx.json

Every crate that is linked into the program for that target, with version, licence, checksum and what it depends on, as
`cargo metadata` and Cargo.lock say; what only builds it (macros, too) or tests it is left out. The same sources give
the same bytes.
"""

import json
import os
import subprocess
import sys
import tomllib
import uuid
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def metadata(triple):
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", triple]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def checksums():
    """By name and version. A crate of this workspace has none."""
    packages = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    return {(package["name"], package["version"]): package.get("checksum") for package in packages}


def is_linked(dependency):
    return any(kind["kind"] is None for kind in dependency["dep_kinds"])


def is_macro(package):
    return any("proc-macro" in target["kind"] for target in package["targets"])


def linked(nodes, packages, root):
    """The crates that are reached from the program, without those that only build or test something."""
    seen, waiting = {}, [root]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            needed = (dependency["pkg"] for dependency in nodes[node]["deps"] if is_linked(dependency))
            seen[node] = sorted(other for other in needed if not is_macro(packages[other]))
            waiting += seen[node]
    return seen


def purl(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, checksum, kind="library"):
    described = {"type": kind, "bom-ref": purl(package), "name": package["name"], "version": package["version"]}
    if package.get("license"):
        described["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if checksum:
        described["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        described["purl"] = purl(package)
    if package.get("repository"):
        described["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return described


def bill(triple):
    found = metadata(triple)
    packages = {package["id"]: package for package in found["packages"]}
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    root = next(i for i, package in packages.items() if package["name"] == "bonfire")
    known = checksums()
    edges = linked(nodes, packages, root)
    parts = sorted((packages[i] for i in edges if i != root), key=lambda part: (part["name"], part["version"]))
    components = [component(part, known.get((part["name"], part["version"]))) for part in parts]
    program = component(packages[root], None, "application")
    program["properties"] = [{"name": "target", "value": triple}]
    time = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), timezone.utc)
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([program, components], sort_keys=True))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{number}",
        "version": 1,
        "metadata": {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": program},
        "components": components,
        "dependencies": [
            {"ref": purl(packages[i]), "dependsOn": [purl(packages[other]) for other in edges[i]]}
            for i in sorted(edges, key=lambda i: purl(packages[i]))
        ],
    }


if __name__ == "__main__":
    json.dump(bill(sys.argv[1]), sys.stdout, indent=1)
    print()
