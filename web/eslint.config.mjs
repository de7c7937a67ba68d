// Rules for the TypeScript of web/ and tests/web: those that find mistakes, none about looks. Names
// of functions, models and files come from others, so nothing here may turn a text into markup or
// code. tests/house/test_web.sh runs it, and sets SONDE_MODULES to the folder of the packages and
// SONDE_TSCONFIG to the project whose types are used.
import { createRequire } from 'node:module';
import { join } from 'node:path';

const require = createRequire(join(process.env.SONDE_MODULES, 'any.js'));
const js = require('@eslint/js');
const ts = require('typescript-eslint');

const markup = 'names come from others: make elements and set textContent';
const policy = "the pages' Content-Security-Policy forbids it";

export default ts.config(
    js.configs.recommended,
    ts.configs.recommendedTypeChecked,
    {
        languageOptions: { parserOptions: { project: process.env.SONDE_TSCONFIG } },
        linterOptions: { reportUnusedDisableDirectives: 'error' },
        rules: {
            '@typescript-eslint/no-floating-promises': 'error',
            '@typescript-eslint/no-misused-promises': 'error',
            '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
            '@typescript-eslint/no-unnecessary-type-assertion': 'error',
            '@typescript-eslint/no-shadow': 'error',
            '@typescript-eslint/no-loop-func': 'error',
            '@typescript-eslint/require-array-sort-compare': ['error', { ignoreStringArrays: true }],
            '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', caughtErrors: 'none' }],
            // A number in a sentence is what templates are for.
            '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
            // async functions answer with promises whether they wait or not.
            '@typescript-eslint/require-await': 'off',
            'array-callback-return': 'error',
            'default-case-last': 'error',
            eqeqeq: ['error', 'always', { null: 'ignore' }],
            'no-constant-binary-expression': 'error',
            'no-eval': 'error',
            'no-new-func': 'error',
            'no-script-url': 'error',
            'no-self-compare': 'error',
            'no-template-curly-in-string': 'error',
            'no-unmodified-loop-condition': 'error',
            'no-unreachable-loop': 'error',
            'no-var': 'error',
            'prefer-const': ['error', { destructuring: 'all' }],
            radix: 'error',
            'no-alert': 'error',
            'no-console': ['error', { allow: ['error', 'warn'] }],
            'no-restricted-syntax': ['error',
                { selector: 'MemberExpression[property.name=/^(innerHTML|outerHTML|insertAdjacentHTML|srcdoc|createContextualFragment|parseFromString|setHTMLUnsafe)$/]',
                    message: markup },
                { selector: 'MemberExpression[object.name="document"][property.name=/^write(ln)?$/]', message: markup },
                { selector: 'CallExpression[callee.property.name="setAttribute"] > Literal.arguments:first-child[value=/^(style|on|srcdoc)/]',
                    message: policy },
                { selector: 'CallExpression[callee.property.name="createElement"] > Literal.arguments:first-child[value=/^(style|script|iframe)$/]',
                    message: policy },
                { selector: 'AssignmentExpression > MemberExpression.left[property.name="cssText"]', message: policy }],
        },
    },
);
