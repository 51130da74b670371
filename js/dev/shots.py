"""Serves the development page and takes screenshots: `python shots.py OUT [name ...]`."""

import functools
import http.server
import sys
import threading
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]
FLAGS = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync".split()
SHOTS = {
    "light": (1280, ""),
    "dark": (1280, "theme=dark"),
    "mid": (900, ""),
    "w720": (720, ""),
    "w320": (320, ""),
    "w250": (250, "theme=dark"),
    "graph320": (320, "pane=g"),
    "running": (1280, "state=running&pending=1"),
    "failed": (1280, "state=failed"),
    "gone": (1280, "state=gone&theme=dark"),
    "lost": (900, "state=lost"),
    "none": (1000, "state=none"),
    "closed": (900, "state=closed"),
    "waiting": (900, "state=waiting&graph=untraced&watch="),
    "before": (1280, "state=before"),
    "before320": (320, "state=before"),
    "kinds": (1000, "watch=wide,tokens,conv1d,fc,embed,volume,loss,unseen,lstm,big"),
    "kindsdark": (1000, "theme=dark&watch=wide,tokens,conv1d,fc,embed,volume,loss,unseen,lstm,big"),
    "kinds320": (320, "watch=wide,tokens,conv1d,fc,embed,volume,loss,unseen,lstm,big"),
    "controls": (900, "widget=controls"),
    "controls250": (250, "widget=controls"),
    "graphalone": (900, "widget=graph"),
    "inception": (900, "widget=graph&graph=inception"),
    "strips": (1280, "widget=strips"),
}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


def serve() -> int:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(ROOT)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    names = sys.argv[2:] or list(SHOTS)
    port = serve()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        for name in names:
            width, query = SHOTS[name]
            page = browser.new_page(viewport={"width": width, "height": 900})
            page.on("console", lambda m: print("console", m.text))
            page.on("pageerror", lambda e: print("error", e))
            page.goto(f"http://127.0.0.1:{port}/js/dev/index.html?{query}")
            page.wait_for_selector(".nsw")
            page.wait_for_timeout(2200 if "none" in query else 900)
            if "pane=g" in query:
                page.click(".ptabs button:first-child")
                page.wait_for_timeout(200)
            if "kinds" in name:
                page.evaluate("document.querySelector('.body')?.style.setProperty('--body-h', '3600px')")
                page.set_viewport_size({"width": width, "height": 4000})
                page.wait_for_timeout(900)
            page.screenshot(path=out / f"{name}.png", full_page=True)
            print(name, page.evaluate("Math.round(opened)"), "ms; overflow", page.evaluate("document.documentElement.scrollWidth - innerWidth"))
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
