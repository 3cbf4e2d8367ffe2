// Keeps the live part of a page as the console tells it, and adds older rows as one scrolls. Without it pages are read as they are.
"use strict";
(() => {
  const part = document.getElementById("part");
  const box = document.querySelector(".top .live");
  const button = document.getElementById("pause");
  let source = null;
  let isPaused = false;

  const say = (state, words) => {
    box.className = `live ${state}`;
    button.textContent = words;
    button.setAttribute("aria-pressed", String(isPaused));
  };

  // Replaces the part, unless a text in it is being selected; what is focused, open or scrolled in it stays so.
  const show = (text) => {
    const selection = document.getSelection();
    if (selection && !selection.isCollapsed && part.contains(selection.anchorNode)) return;
    const focused = part.contains(document.activeElement) ? place(document.activeElement) : null;
    const open = [...part.querySelectorAll("details[open]")].map((each) => each.id);
    const scrolled = [...part.querySelectorAll(".scroll")].map((each) => [each.scrollLeft, each.scrollTop]);
    part.innerHTML = text;
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    [...part.querySelectorAll(".scroll")].forEach((each, at) => {
      if (scrolled[at]) [each.scrollLeft, each.scrollTop] = scrolled[at];
    });
    if (focused) find(focused)?.focus({ preventScroll: true });
    watchNext();
  };

  const FOCUSABLE = "a[href], button, input, select, summary, [tabindex]";
  const place = (element) => [element.getAttribute("href"), [...part.querySelectorAll(FOCUSABLE)].indexOf(element)];
  const find = ([href, at]) => {
    const all = [...part.querySelectorAll(FOCUSABLE)];
    return (href && all.find((each) => each.getAttribute("href") === href)) || all[at];
  };

  const stop = () => { source?.close(); source = null; };
  const start = () => {
    if (source || isPaused || document.hidden) return;
    source = new EventSource(part.dataset.live);
    source.addEventListener("part", (event) => show(event.data));
    source.onopen = () => say("on", "Page is live: pause");
    source.onerror = () => {
      say("lost", "Lost: trying again");
      if (source.readyState === EventSource.CLOSED) { stop(); setTimeout(start, 3000); }
    };
  };
  const pause = (words) => { isPaused = true; stop(); say("", words); };

  if (part?.dataset.live && box) {
    box.hidden = false;
    say("", "Page is live");
    button.addEventListener("click", () => {
      if (!isPaused) return pause("Paused: go on");
      isPaused = false;
      if (document.querySelector(".more")) return location.reload();
      start();
    });
    document.addEventListener("visibilitychange", () => (document.hidden ? stop() : start()));
    start();
  }

  // What takes seconds says so, and is not asked for twice.
  for (const form of document.querySelectorAll("form[method=post]")) {
    form.addEventListener("submit", (event) => {
      const asked = event.submitter;
      if (form.getAttribute("aria-busy")) return event.preventDefault();
      form.setAttribute("aria-busy", "true");
      if (!asked) return;
      const note = document.createElement("p");
      note.className = "soft running";
      note.setAttribute("role", "status");
      const begun = Date.now();
      let far = "";
      const count = async () => {
        note.textContent = `Running for ${Math.round((Date.now() - begun) / 1000)} s${far && `, ${far}`}; this page changes when it has ended.`;
        if (form.dataset.progress) far = await fetch(form.dataset.progress).then((answer) => (answer.ok ? answer.text() : ""), () => "");
      };
      setTimeout(() => { asked.textContent = `${asked.textContent} …`; form.append(note); count(); setInterval(count, 1000); }, 0);
    });
  }
  for (const copier of navigator.clipboard ? document.querySelectorAll("button[data-copies]") : []) {
    copier.hidden = false;
    copier.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(copier.dataset.copies).textContent);
      copier.textContent = "Copied";
    });
  }
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

  // Older rows come as one scrolls to the end; the page then stands still, so that none is missed or shown twice.
  let isLoading = false;
  const older = async (link) => {
    if (isLoading) return;
    isLoading = true;
    try {
      const answer = await fetch(link.href);
      if (!answer.ok) return;
      if (box && !isPaused) pause("Paused while you read older ones: go on");
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const found = page.querySelector("#part .grid, #part .scroll");
      const next = page.querySelector("#next");
      link.closest(".next").remove();
      if (found) {
        found.classList.add("more");
        for (const row of found.querySelectorAll("tr[id]")) row.removeAttribute("id");
        part.append(document.adoptNode(found));
      }
      if (next) part.append(document.adoptNode(next.closest(".next")));
    } finally {
      isLoading = false;
    }
    watchNext();
  };
  const watcher = window.IntersectionObserver
    ? new IntersectionObserver((seen) => seen.filter((each) => each.isIntersecting && hasScrolled).forEach((each) => older(each.target)), { rootMargin: "600px" })
    : null;
  let hasScrolled = false;
  addEventListener("scroll", () => { if (!hasScrolled) { hasScrolled = true; watchNext(); } }, { passive: true });
  const watchNext = () => {
    watcher?.disconnect();
    const link = document.getElementById("next");
    if (link && hasScrolled) watcher?.observe(link);
  };
  watchNext();
})();
