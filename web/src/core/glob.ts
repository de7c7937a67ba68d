// Globs as the agent's filters understand them (fnmatch): *, ?, [a-z], [!a], \x.

const cache = new Map<string, RegExp>();

function escape(c: string): string {
    return /[\\^$.*+?()[\]{}|/]/.test(c) ? `\\${c}` : c;
}

function translate(glob: string): string {
    let out = '';
    for (let i = 0; i < glob.length; i++) {
        const c = glob[i];
        const close = c === '[' ? glob.indexOf(']', i + (glob[i + 1] === '!' || glob[i + 1] === '^' ? 3 : 2)) : -1;
        if (c === '*') out += '[^]*';
        else if (c === '?') out += '[^]';
        else if (close > 0) {
            const inside = glob.slice(i + 1, close);
            const not = inside[0] === '!' || inside[0] === '^';
            out += `[${not ? '^' : ''}${(not ? inside.slice(1) : inside).replace(/[\\\]^[]/g, '\\$&')}]`;
            i = close;
        } else if (c === '\\' && i + 1 < glob.length) out += escape(glob[++i]);
        else out += escape(c);
    }
    return out;
}

export function globMatches(glob: string, text: string): boolean {
    let r = cache.get(glob);
    if (!r) {
        try {
            r = new RegExp(`^${translate(glob)}$`);
        } catch {
            r = new RegExp(`^${[...glob].map(escape).join('')}$`); // a range that goes backwards: as it is
        }
        if (cache.size > 200) cache.clear();
        cache.set(glob, r);
    }
    return r.test(text);
}

// A name as a glob that matches it alone.
export function globOf(name: string): string {
    return name.replace(/[\\*?[]/g, '\\$&');
}
