// bundle.mjs MODULES OUT FILE.ts…: the unit tests as Node runs them, OUT/FILE.mjs each. MODULES is
// the node_modules folder that web/ is built with.
import { createRequire } from 'node:module';
import { resolve } from 'node:path';

const [modules, outdir, ...entryPoints] = process.argv.slice(2);
const esbuild = createRequire(resolve(modules, 'any.js'))('esbuild');
await esbuild.build({
    entryPoints,
    outdir,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: ['node18'],
    nodePaths: [resolve(modules)],
    loader: { '.css': 'text' },
    sourcemap: 'inline',
    logLevel: 'warning',
});
