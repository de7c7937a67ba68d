// Names that would be something else than text if a page let them: those that infer_load's command
// "odd" gives to models, routes, ids and errors, and how to tell that none of them got out.

/** Of models, routes and ids. */
export const ODD_NAMES = [
    '<script>alert(1)</script>',
    'a "quoted" \'name\' & <b>bold</b>',
    '\u05e9\u05dc\u05d5\u05dd \u202eevil\u202c end',
    '\u{1f999} llama \u{1f525}',
];
export const ODD_ERROR = '<i>bad</i> "input"';
export const ODD_USER = '<u>"o\'neil"</u>'; // an attribute of each such request
export const ODD_FUNCTION = '<img src=x onerror=alert(2)>';
export const ODD_MARK = '<b>"x"</b> \u05e9\u05dc\u05d5\u05dd \u202eevil\u202c \u{1f999}';

/** In the page: elements that only data can have made. The page's own script and data have no text of
 *  theirs in the document but these. */
export function strays() {
    const all = (root) => [...root.querySelectorAll('*')].flatMap((e) => e.shadowRoot ? [e, ...all(e.shadowRoot)] : [e]);
    const saved = document.getElementById('sonde-data');
    const own = (e) => e === saved || e.previousElementSibling === saved && saved !== null || /\/profiling\/app\.js/.test(e.src);
    return all(document).filter((e) => ['IMG', 'IFRAME', 'OBJECT', 'EMBED', 'U'].includes(e.tagName) || e.tagName === 'SCRIPT' && !own(e)
        || [...e.attributes].some((a) => a.name.startsWith('on')) || ['B', 'I'].includes(e.tagName) && /^(bold|bad|"x")$/.test(e.textContent))
        .map((e) => e.outerHTML.slice(0, 200));
}

/** In the page: all its text, shadow roots included. */
export function wholeText() {
    const text = (n) => n.nodeType === Node.TEXT_NODE ? n.nodeValue : ['SCRIPT', 'STYLE'].includes(n.tagName) ? ''
        : [...(n.shadowRoot?.childNodes ?? []), ...n.childNodes].map(text).join('');
    return text(document.body);
}
