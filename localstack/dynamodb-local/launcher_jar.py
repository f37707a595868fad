"""Makes DynamoDBLocal.jar, which LocalStack starts with `java -jar`: LoopbackServerRunner and the way to the libraries.

usage: launcher_jar.py JAR CLASSES; the libraries are in DynamoDBLocal_lib beside JAR.
"""

import sys
import zipfile
from pathlib import Path


def manifest(libraries: list[str]) -> str:
    lines = [
        "Manifest-Version: 1.0",
        "Main-Class: LoopbackServerRunner",
        "Premain-Class: LoopbackServerRunner",
        "Class-Path: " + " ".join(libraries),
    ]
    return "".join(folded(line) for line in lines) + "\r\n"


def folded(line: str) -> str:
    """A manifest line has at most 72 bytes; what follows is continued after a space."""
    head, rest = line[:70], line[70:]
    return head + "\r\n" + (folded(" " + rest) if rest else "")


def main(jar: Path, classes: Path) -> None:
    libraries = sorted(f"DynamoDBLocal_lib/{path.name}" for path in (jar.parent / "DynamoDBLocal_lib").glob("*.jar"))
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", manifest(libraries))
        for path in sorted(classes.glob("*.class")):
            archive.write(path, path.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
