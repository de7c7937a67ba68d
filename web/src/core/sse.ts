// The format of server-sent events. No DOM.

export interface ServerEvent { event: string; data: string; id: string | null }

// Feed text in any pieces; events come out whole.
export class EventParser {
    private rest = '';
    private event = '';
    private data: string[] = [];
    private id: string | null = null;
    retryMs: number | null = null;

    constructor(private readonly on: (e: ServerEvent) => void) {}

    feed(text: string): void {
        this.rest += text;
        let at = 0;
        for (;;) {
            const end = this.rest.indexOf('\n', at);
            if (end < 0) break;
            this.line(this.rest.slice(at, this.rest[end - 1] === '\r' && end > at ? end - 1 : end));
            at = end + 1;
        }
        this.rest = this.rest.slice(at);
    }

    private line(line: string): void {
        if (line === '') {
            if (this.data.length || this.id !== null) {
                this.on({ event: this.event || 'message', data: this.data.join('\n'), id: this.id });
            }
            this.event = '';
            this.data = [];
            this.id = null;
            return;
        }
        const colon = line.indexOf(':');
        if (colon === 0) return;
        const field = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
        if (field === 'event') this.event = value;
        else if (field === 'data') this.data.push(value);
        else if (field === 'id') this.id = value;
        else if (field === 'retry' && /^\d+$/.test(value)) this.retryMs = Number(value);
    }
}
