// What the list of routes says that an agent can do.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lineHas } from '../../web/src/core/abilities';

const LIST = `sonde at http://127.0.0.1:6060

/api/stream        server-sent events: events=series,points,store (events, name)
/api/events        starts and ends
POST /api/marks    a mark
`;

test('a route is there if a line begins with it', () => {
    const cases: [string, string, boolean][] = [
        ['/api/events', '', true], ['/api/event', '', false], ['/api/stream', 'points', true], ['/api/stream', 'marks', false], ['/api/x', '', false],
    ];
    for (const [route, word, want] of cases) assert.equal(lineHas(LIST, route, word), want, `${route} ${word}`);
});
