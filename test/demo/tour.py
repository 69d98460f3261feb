"""Makes pictures of a recorded demo, one for each chapter but the last: make tour. Needs the package rich.

    python3 test/demo/tour.py RECORDING FOLDER
"""
import re
import sys

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

CHAPTER = re.compile(r"\x1b\[1m\d  ")
OVERWRITTEN = re.compile(r"[^\n]*\r(?=[^\n])|\x1b\[K")  # a line that another one took the place of
FONT = re.compile(r"@font-face \{.*?\}", re.DOTALL)     # is loaded from elsewhere

recording, folder = sys.argv[1:]
text = open(recording, newline="").read().replace("\r\n", "\n")
text = OVERWRITTEN.sub("", text)
starts = [m.start() for m in CHAPTER.finditer(text)]
if len(starts) < 2:
    sys.exit(f"{recording} is no recording of a whole demo")
for n, (start, end) in enumerate(zip(starts, starts[1:]), 1):
    title, _, body = text[start:end].strip().partition("\n")
    console = Console(record=True, width=100, file=open("/dev/null", "w"), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(body.strip("\n")))
    svg = console.export_svg(title=Text.from_ansi(title).plain, theme=MONOKAI, unique_id=f"tour{n}")
    with open(f"{folder}/tour-{n}.svg", "w") as f:
        f.write(FONT.sub("", svg))
