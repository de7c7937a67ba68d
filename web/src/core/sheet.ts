// Constructable style sheets: allowed by a Content-Security-Policy that forbids inline styles,
// and shared by all instances of an element.

const made = new Map<string, CSSStyleSheet>();

export function sheet(css: string): CSSStyleSheet {
    let s = made.get(css);
    if (!s) {
        s = new CSSStyleSheet();
        s.replaceSync(css);
        made.set(css, s);
    }
    return s;
}

// Add a sheet to the document once.
export function adopt(css: string, to: DocumentOrShadowRoot = document): void {
    const s = sheet(css);
    if (!to.adoptedStyleSheets.includes(s)) to.adoptedStyleSheets = [...to.adoptedStyleSheets, s];
}
