// Icons as inline SVG paths on a 16 px grid, drawn in the text colour; no font and no file is loaded.

const FILLED = 'fill="currentColor" stroke="none"';

const PATHS = {
  step: `<path d="M12.5 3.5v9"/><path ${FILLED} d="M3 3.6v8.8c0 .5.5.8.9.5L10 8.5a.6.6 0 0 0 0-1L3.900 3.100c-.4-.3-.9 0-.9.5z"/>`,
  back: `<path d="M3.500 3.500v9"/><path ${FILLED} d="M13 3.600v8.800c0 .5-.500.8-.900.5L6 8.500a.6.6 0 0 1 0-1L12.100 3.100c.4-.3.9 0 .9.5z"/>`,
  run: `<path ${FILLED} d="M4.500 3.200v9.600c0 .5.500.8.900.5l7.300-4.800a.6.6 0 0 0 0-1L5.400 2.700c-.4-.3-.9 0-.9.5z"/>`,
  stop: `<rect ${FILLED} x="4" y="4" width="8" height="8" rx="1"/>`,
  refresh: '<path d="M13 8a5 5 0 1 1-1.600-3.650M13 2.500v2.700h-2.700"/>',
  down: '<path d="M5 6.500 8 9.500l3-3"/>',
  left: '<path d="M9.500 5 6.500 8l3 3"/>',
  right: '<path d="m6.500 5 3 3-3 3"/>',
  pause: `<path ${FILLED} d="M4.500 3.500h2.500v9H4.500zM9.500 3.500h2.500v9H9.500z"/>`,
  check: '<path d="m3.500 8.500 3 3 6-7" stroke-width="2"/>',
  warn: `<path ${FILLED} d="M8 1.800a1 1 0 0 1 .87.5l5.800 10.200a1 1 0 0 1-.87 1.500H2.200a1 1 0 0 1-.87-1.500L7.130 2.300A1 1 0 0 1 8 1.800z"/><path d="M8 6v3.200M8 11.600v.1" style="stroke:var(--bg)"/>`,
  triangle: `<path ${FILLED} d="M8 1 15.500 14.500h-15z"/>`,
  settings: '<path d="M2 4.500h7M12.500 4.500H14M2 11.500h1.500M7 11.500h7"/><circle cx="10.700" cy="4.500" r="1.800"/><circle cx="5.300" cy="11.500" r="1.800"/>',
  code: '<path d="M5 4.500 1.500 8 5 11.500M11 4.500 14.500 8 11 11.500M9.200 3l-2.400 10"/>',
  keys: '<path d="M5.800 6.200a2.200 2.200 0 1 1 3.300 1.900c-.7.4-1.100.8-1.100 1.600M8 12.200v.1"/>',
  search: '<circle cx="7" cy="7" r="4"/><path d="m10 10 3.500 3.500"/>',
  plus: '<path d="M8 3.500v9M3.500 8h9"/>',
  minus: '<path d="M3.500 8h9"/>',
  fit: '<path d="M2.500 6V3.500a1 1 0 0 1 1-1H6M10 2.500h2.500a1 1 0 0 1 1 1V6M13.500 10v2.500a1 1 0 0 1-1 1H10M6 13.500H3.500a1 1 0 0 1-1-1V10"/>',
  side: '<rect x="2" y="3" width="12" height="10" rx="1.500"/><path d="M10 3v10"/>',
  pin: '<path d="M5.500 2.500h5M6.500 2.500v4L4.500 9h7l-2-2.500v-4M8 9v4.500"/>',
  brush: '<path d="M13.500 2.500c-3 1-5 3-6.500 5.500l1 1c2.500-1.500 4.500-3.500 5.500-6.500zM6.500 9c-1.500 0-2 1-2 2.200 0 .9-.7 1.400-2 1.600 2.500 1.200 5.500.7 5.500-2.300"/>',
  eraser: '<path d="m9 3 4.500 4.500-5.500 5.500H5.500L3 10.500zM6 6l4.500 4.500M5.500 13h8"/>',
  undo: '<path d="M5.500 3.500 2.500 6.500l3 3M3 6.500h6a3.500 3.500 0 0 1 0 7H6"/>',
  trash: '<path d="M3 4.500h10M6.500 4.500v-2h3v2M4.500 4.500l.6 9h5.800l.6-9M6.800 7v4M9.200 7v4"/>',
  noise: '<path d="M2 9.500 3.500 6 5 11l2-8 2 10 1.700-6.500 1.300 3.500 2-2"/>',
  field: '<rect x="2.500" y="2.500" width="11" height="11" rx="1"/><path d="M6 6h4v4H6z"/>',
  close: '<path d="m4 4 8 8M12 4l-8 8"/>',
  copy: '<rect x="5.500" y="5.500" width="8" height="8" rx="1.500"/><path d="M3.500 10.500h-.3a.7.7 0 0 1-.7-.7V3.200c0-.4.300-.7.700-.7h6.600c.4 0 .7.300.7.700v.3"/>',
};

export type IconName = keyof typeof PATHS;

export function icon(name: IconName, size = 16): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  element.setAttribute("class", "ic");
  element.setAttribute("viewBox", "0 0 16 16");
  element.setAttribute("aria-hidden", "true");
  if (size !== 16) element.setAttribute("style", `width:${size}px;height:${size}px`);
  element.innerHTML = PATHS[name];
  return element;
}
