"""Drives the development page as a person would and prints what was seen: `python drive.py OUT`."""

import sys
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from shots import FLAGS, serve

OUT = Path(sys.argv[1])
OUT.mkdir(parents=True, exist_ok=True)


def main() -> None:
    port = serve()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)

        def open_page(query: str, width: int = 1280, height: int = 1000):
            page = browser.new_page(viewport={"width": width, "height": height})
            page.on("console", lambda m: print("console", m.text))
            page.on("pageerror", lambda e: print("error", e))
            page.goto(f"http://127.0.0.1:{port}/js/dev/index.html?{query}")
            page.wait_for_selector(".nsw")
            page.wait_for_timeout(500)
            return page

        page = open_page("watch=stage1.0.conv1,tokens,wide")
        card = page.get_by_role("region", name="layer stage1.0.conv1", exact=True)
        tile = card.locator("[data-kind=activations] .tile[data-channel='5'] .face")
        tile.hover(position={"x": 20, "y": 30})
        page.wait_for_timeout(20)
        print("at once:", card.locator(".ro").all_inner_texts())
        page.wait_for_timeout(150)
        print("exact:  ", card.locator(".ro").all_inner_texts())
        tile.click(position={"x": 20, "y": 30})
        page.wait_for_timeout(200)
        page.screenshot(path=OUT / "magnified.png")
        zoom = card.locator("[data-kind=gradients] .zoom canvas")
        zoom.hover(position={"x": 50, "y": 60})
        page.wait_for_timeout(100)
        print("magnifier:", card.locator(".ro").all_inner_texts())
        zoom.focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(100)
        print("arrow:", card.locator(".ro").all_inner_texts())
        page.keyboard.press("Escape")
        page.wait_for_timeout(100)
        print("magnifier after Esc:", card.locator(".zoom:visible").count())
        card.locator(".tile[data-channel='0']").first.focus()
        for _ in range(3):
            page.keyboard.press("ArrowDown")
        page.wait_for_timeout(200)
        print("range after arrows:", card.locator(".rng").inner_text(), "focus", page.evaluate("document.activeElement.dataset.channel"))
        page.keyboard.press("n")
        page.wait_for_timeout(200)
        print("n:", page.locator(".pos").inner_text().replace("\n", " "))
        page.keyboard.press("?")
        page.wait_for_timeout(50)
        page.screenshot(path=OUT / "keys.png")
        page.keyboard.press("Escape")
        page.keyboard.press("u")
        page.wait_for_timeout(50)
        page.screenshot(path=OUT / "until.png")
        page.get_by_role("button", name="Run", exact=True).last.click()
        page.wait_for_timeout(100)
        print("until sent:", page.evaluate("model.sent.filter(m=>m.type==='action').at(-1)"))
        page.get_by_role("button", name="Settings").click()
        page.wait_for_timeout(50)
        page.screenshot(path=OUT / "settings.png")
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Step options").click()
        page.wait_for_timeout(50)
        page.screenshot(path=OUT / "menu.png")
        page.keyboard.press("Escape")
        page.get_by_role("searchbox", name="Filter layers").fill("stage1.* Linear")
        page.wait_for_timeout(200)
        page.get_by_role("button", name="bn1 BatchNorm2d", exact=True).hover()
        page.wait_for_timeout(100)
        page.screenshot(path=OUT / "filter.png")
        page.get_by_role("button", name="Watch 14").or_(page.locator(".gfound button").first).click()
        page.wait_for_timeout(300)
        print("watch sent:", len(page.evaluate("model.sent.filter(m=>m.name==='watch').at(-1).args.layers")), "cards", page.locator(".card").count())
        print("wanted at once:", page.evaluate("model.sent.filter(m=>m.type==='want').at(-1).cards.map(c=>[c.layer,c.first,c.count])"))
        page.get_by_role("radio", name="Abs").click()
        page.get_by_role("button", name="Average").click()
        page.wait_for_timeout(300)
        page.screenshot(path=OUT / "average.png")
        print("acks", page.evaluate("model.sent.filter(m=>m.type==='ack').length"), "wants", page.evaluate("model.sent.filter(m=>m.type==='want').length"), "strips", page.evaluate("model.seq"))
        page.close()

        page = open_page("watch=wide")
        box = page.locator("[data-kind=activations] .tiles")
        start = time.perf_counter()
        page.evaluate("""async () => { const b = document.querySelector('[data-kind=activations] .tiles'); const g = document.querySelector('[data-kind=gradients] .tiles');
            let worst = 0, last = performance.now();
            for (let i = 0; i < 120; i++) { b.scrollTop += 97; await new Promise(requestAnimationFrame); const now = performance.now(); worst = Math.max(worst, now - last); last = now; }
            window.worst = worst; window.same = b.scrollTop === g.scrollTop; }""")
        page.wait_for_timeout(200)
        print("scrolled 120 frames, worst frame", page.evaluate("worst"), "ms, both", page.evaluate("same"), "tiles in DOM", page.locator(".tile").count(), page.locator(".rng").inner_text(), "max count wanted", page.evaluate("Math.max(...model.sent.filter(m=>m.type==='want').flatMap(m=>m.cards.map(c=>c.count)))"))
        page.screenshot(path=OUT / "wide.png")
        page.close()

        page = open_page("state=lost", 900)
        print("lost:", page.locator(".pill").inner_text(), end=" -> ")
        page.get_by_role("button", name="Reconnect").click()
        page.wait_for_timeout(100)
        print(page.locator(".pill").inner_text())
        page.close()

        page = open_page("state=running&pending=1")
        page.get_by_role("button", name="Stop").click()
        print("second press on Stop sends", page.evaluate("model.sent.filter(m=>m.type==='action').map(m=>m.name)"))
        page.evaluate("model.set('state', {...model.get('state'), status: 'paused', pending: []})")
        page.get_by_role("button", name="Step batch").first.click()
        page.get_by_role("button", name="Step options").click()
        page.get_by_role("menuitem", name="Run until").click()
        page.get_by_role("spinbutton", name="epoch").fill("9")
        page.evaluate("void (model.act = (m) => model.reply({type: 'echo', view: m.view, req: m.req, code: 'x', error: 'ValueError: no such epoch'}))")
        page.keyboard.press("Enter")
        page.wait_for_timeout(150)
        print("error line:", page.locator(".oops").inner_text(), "| focus", page.evaluate("document.activeElement.ariaLabel"))
        page.evaluate("model.emit('msg:custom', {type: 'strips', view: model.view, seq: 99, snapshot: 1, position: null, cards: [{layer: 'conv1', strips: [{}]}]}, [])")
        page.wait_for_timeout(150)
        print("broken message:", page.locator(".oops").inner_text())
        page.close()

        page = open_page("watch=conv1,stage1.0.conv1,fc")
        heap = page.context.new_cdp_session(page)
        sizes = []
        for _ in range(3):
            page.evaluate("""async () => { for (let i = 0; i < 150; i++) { model.act({view: model.view, req: 1e6 + i, name: 'step_batch', args: {}}); await new Promise(requestAnimationFrame); } }""")
            heap.send("HeapProfiler.collectGarbage")
            sizes.append(round(heap.send("Runtime.getHeapUsage")["usedSize"] / 1e6, 2))
        print("heap MB after each 150 updates:", sizes, "acks", page.evaluate("model.sent.filter(m=>m.type==='ack').length"))
        page.evaluate("cleanup()")
        print("after cleanup:", page.locator(".nsw").count(), "handlers", page.evaluate("[...model.handlers.values()].flat().length"))
        page.close()

        for graph in ("large", "flat"):
            page = open_page(f"watch=&graph={graph}")
            print(graph, "nodes", page.evaluate("model.traits.graph.nodes.length"), "opened in", page.evaluate("Math.round(opened)"), "ms; visible", page.locator(".gn").count())
            page.screenshot(path=OUT / f"graph-{graph}.png")
            if graph == "large":
                print("all open:", page.evaluate("""() => { const t = performance.now(); let n = 0; for (;;) { const b = document.querySelector('.gx[aria-expanded=false]'); if (!b || n > 20) break; b.click(); n++; } return [n, Math.round(performance.now() - t), document.querySelectorAll('.gn').length]; }"""))
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
