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



def picture(text, title, name, width=100):
    console = Console(record=True, width=width, file=open("/dev/null", "w"), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(text.strip("\n")))
    return FONT.sub("", console.export_svg(title=title, theme=MONOKAI, unique_id=name))


def moving(svg):
    """Lets the lines appear one after the other: output at once, a command and what is said of it after a pause."""
    at, last, pause = 0.5, None, {"#": 2.5, "$": 1.2}

    def later(match):
        nonlocal at, last
        if match["y"] != last:
            at, last = at + pause.get(match["text"][:1], 0.3), match["y"]
        return f'<text style="animation-delay:{at:.1f}s"{match["rest"]}'

    svg = re.sub(r'<text(?P<rest> class="\w+-r\d+" x="[\d.]+" y="(?P<y>[\d.]+)"[^>]*>(?P<text>[^<]*))', later, svg)
    show = "@keyframes show{from{opacity:0}to{opacity:1}}text[style]{animation:show .2s both}" \
           "@media(prefers-reduced-motion){text[style]{animation:none}}"
    return svg.replace("<style>", "<style>" + show, 1)


recording, folder = sys.argv[1:]
text = open(recording, newline="").read().replace("\r\n", "\n")
text = OVERWRITTEN.sub("", text)
starts = [m.start() for m in CHAPTER.finditer(text)]
if folder.endswith(".svg"):
    body = re.sub(r"^Script .*\n|^\[\d+\].*\n", "", text, flags=re.MULTILINE)
    with open(folder, "w") as f:
        f.write(moving(picture(body, "kubecdc", "first", 124)))
    sys.exit()
if len(starts) < 2:
    sys.exit(f"{recording} is no recording of a whole demo")
for n, (start, end) in enumerate(zip(starts, starts[1:]), 1):
    title, _, body = text[start:end].strip().partition("\n")
    with open(f"{folder}/tour-{n}.svg", "w") as f:
        f.write(picture(body, Text.from_ansi(title).plain, f"tour{n}"))
