// What the tests use of Node. Not @types/node: it would change types of the browser's, of
// setTimeout among them, for the scripts under test as well.
declare module 'node:test' {
    type Body = () => void | Promise<void>;
    export function test(name: string, body: Body): void;
    export function describe(name: string, body: () => void): void;
}
declare module 'node:assert/strict' {
    interface Assert {
        (value: unknown, message?: string): asserts value;
        ok(value: unknown, message?: string): asserts value;
        equal(actual: unknown, expected: unknown, message?: string): void;
        notEqual(actual: unknown, expected: unknown, message?: string): void;
        deepEqual(actual: unknown, expected: unknown, message?: string): void;
        match(text: string, pattern: RegExp, message?: string): void;
        throws(body: () => unknown, expected?: RegExp | (new (...args: never[]) => Error)): void;
        rejects(body: Promise<unknown> | (() => Promise<unknown>), expected?: RegExp): Promise<void>;
        fail(message?: string): never;
    }
    const assert: Assert;
    export default assert;
}
