// Which theme the page has, followed live: JupyterLab says so on <body>, VS Code with a class, and elsewhere
// the colour behind the widget decides.

export type Theme = "light" | "dark";

export function themeOf(element: Element): Theme {
  const body = document.body;
  const jupyter = body.dataset.jpThemeLight;
  if (jupyter !== undefined) return jupyter === "false" ? "dark" : "light";
  if (body.dataset.vscodeThemeKind) return /dark|high-contrast$/.test(body.dataset.vscodeThemeKind) ? "dark" : "light";
  if (body.classList.contains("vscode-dark") || body.classList.contains("vscode-high-contrast")) return "dark";
  for (let at: Element | null = element; at; at = at.parentElement) {
    const luminance = luminanceOf(getComputedStyle(at).backgroundColor);
    if (luminance !== null) return luminance < 0.4 ? "dark" : "light";
  }
  return "light";
}

/** Perceived lightness 0..1 of a computed colour; null when it is see-through. */
export function luminanceOf(color: string): number | null {
  const parts = color.match(/[\d.]+/g)?.map(Number);
  if (!parts || parts.length < 3 || (parts.length > 3 && (parts[3] ?? 1) < 0.5)) return null;
  const [r = 0, g = 0, b = 0] = parts;
  return (0.299 * r + 0.587 * g + 0.114 * b) / 255;
}

export function onThemeChange(changed: () => void): () => void {
  const observer = new MutationObserver(changed);
  observer.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-vscode-theme-kind", "class"] });
  return () => observer.disconnect();
}
