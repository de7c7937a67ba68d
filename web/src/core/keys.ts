// Keyboard: single keys and sequences ("g d"), none while somebody types. What is registered is
// what the help overlay lists.

export interface Key {
    keys: string; // "?", "g d", "Shift+ArrowLeft"; several ways: "+ | ="
    text: string; // for the help overlay
    run?: (e: KeyboardEvent) => void; // none: documented here, handled by an element
}
export interface KeyGroup { title: string; keys: readonly Key[] }

const groups: KeyGroup[] = [];
let pending = '';
let pendingAt = 0;

export function addKeys(title: string, keys: readonly Key[]): () => void {
    const group = { title, keys };
    groups.push(group);
    return () => {
        const i = groups.indexOf(group);
        if (i >= 0) groups.splice(i, 1);
    };
}

export function keyGroups(): readonly KeyGroup[] {
    return groups;
}

function typing(e: KeyboardEvent): boolean {
    const t = e.composedPath()[0];
    if (!(t instanceof HTMLElement)) return false;
    return t.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(t.tagName);
}

export function keyName(e: KeyboardEvent): string {
    const named = e.key.length > 1;
    return (named && e.shiftKey ? 'Shift+' : '') + e.key;
}

function find(text: string): Key | null {
    for (let i = groups.length - 1; i >= 0; i--) {
        for (const k of groups[i].keys) if (k.run && k.keys.split(' | ').includes(text)) return k;
    }
    return null;
}

export function startKeys(): void {
    window.addEventListener('keydown', (e) => {
        if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || typing(e)) return;
        if (document.querySelector('dialog[open]')) return; // which Escape closes, unless a key here prevents it
        const name = keyName(e);
        const fresh = e.timeStamp - pendingAt < 1500;
        const sequence = pending && fresh ? `${pending} ${name}` : '';
        const key = (sequence && find(sequence)) || find(name);
        pending = key ? '' : name;
        pendingAt = e.timeStamp;
        if (!key) return;
        e.preventDefault();
        key.run!(e);
    });
}
