// A page of the dashboard: one file in pages/, one row in pages/list.ts.

import { Key } from './keys';

export interface Page {
    id: string;    // last part of the address, /profiling/ID
    title: string;
    icon: string;  // path data of a line icon, 24 by 24 (dom.ts, icon)
    keys: readonly Key[];
    // Fill root; what comes back takes it all down: streams, timers, listeners. root is emptied after.
    render(root: HTMLElement): () => void;
}
