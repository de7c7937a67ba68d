// A file that has its data inlined: `sonde report --format html` and "save this page" write it, the
// same pages read it, from disk and without an agent.
//
//   <script type="application/json" id="sonde-data">
//   { "version": 1, "title", "made": unix time, "source", "pages": ["dashboard", …],
//     "query": "from=…&to=…",            the state it opens with; the first page is the one shown
//     "answers": { "/api/path?sorted=params": answer } }
//
// A question is answered by the entry of exactly its text. What can be worked out from others is:
// /api/query from all series that are there, /api/requests from all requests, and so on.

import { answerFrom, frozenStep } from './frozen_answer';
import { Params } from './params';

export interface Frozen {
    version: 1;
    title: string;
    made: number;
    source: string;
    pages: string[];
    query?: string;
    answers: Record<string, unknown>;
}

let file: Frozen | null = null;

// Of the series in the file; charts have that step and no other.
export function savedStep(): number | null {
    return file ? frozenStep(file.answers) : null;
}

export function isFrozen(): boolean {
    return file !== null;
}

export function frozenFile(): Frozen | null {
    return file;
}

export function setFrozen(f: Frozen | null): void {
    file = f;
}

export function readFrozen(text: string): Frozen {
    const f = JSON.parse(text) as Frozen;
    if (f.version !== 1) throw new Error(`this file is of version ${String(f.version)}, which this page cannot read`);
    if (!f.answers || typeof f.answers !== 'object') throw new Error('this file has no data');
    return f;
}

// undefined: not in the file.
export function frozenAnswer(path: string, params: Params): unknown {
    return file ? answerFrom(file.answers, path, params) : undefined;
}

// Text of JSON that can stand in a <script>: no "<" can end it or begin a comment.
export function embedded(f: Frozen): string {
    return JSON.stringify(f).replace(/</g, '\\u003c').replace(/\u2028/g, '\\u2028').replace(/\u2029/g, '\\u2029');
}

// The whole file. Its policy lets it talk to nobody.
export function frozenHtml(f: Frozen, version: string, script: string, style: string): string {
    const escape = (t: string) => t.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
    return `<!doctype html>
<html lang="en" data-version="${escape(version)}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escape(f.title)}</title>
<style>${style}</style>
</head>
<body>
<noscript>This file shows what a running agent saw, with JavaScript, which is off.</noscript>
<script type="application/json" id="sonde-data">${embedded(f)}</script>
<script>${script}</script>
</body>
</html>
`;
}

// Whether a saved file has something of a route; true of an agent, which can be asked.
export function mayHave(path: string): boolean {
    return !file || Object.keys(file.answers).some((key) => key === path || key.startsWith(`${path}?`));
}
