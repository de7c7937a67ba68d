// What of a flame graph is shown, and how: everything that a link to it has to say.

import { Order } from '../../flame/merge';

export type View = 'flame' | 'sandwich' | 'functions' | 'time';
export const VIEWS: readonly (readonly [View, string])[] = [
    ['flame', 'Flame graph'], ['sandwich', 'Sandwich'], ['functions', 'Functions'], ['time', 'Over time'],
];

export interface Look {
    view: View;
    invert: boolean;
    fold: boolean;
    order: Order;
    search: string;
    regex: boolean;
    colors: string;      // '': as the profile says
    focus: string[];     // names from the outermost frame on
}

/** Kinds of samples as people call them, in the order of the switch. */
export const KINDS: readonly (readonly [string, string, string])[] = [
    ['cpu', 'CPU', 'CPU time'],
    ['off-cpu', 'Off-CPU', 'Time that threads were blocked or waited'],
    ['wall', 'Wall', 'Time from begin to end'],
    ['runnable', 'Runnable', 'Time runnable, but not running'],
    ['live', 'In use', 'Memory in use'],
    ['peak', 'Peak', 'Memory in use when the most was in use'],
    ['leaked', 'Leaked', 'Memory that leaks'],
    ['alloc', 'Allocated', 'Memory allocated, freed since or not'],
    ['temporary', 'Temporary', "Memory freed before the thread's next allocation"],
    ['other', 'Samples', 'Samples'],
];

/** Keys of the graph, for help overlays; the element handles them itself. */
export const FLAME_KEYS: readonly { keys: string; text: string }[] = [
    { keys: '/', text: 'Search the flame graph' },
    { keys: 'ArrowUp | ArrowDown | ArrowLeft | ArrowRight', text: 'Move from frame to frame' },
    { keys: 'Enter', text: 'Zoom to the frame' },
    { keys: 'Backspace', text: 'Zoom out to its caller' },
    { keys: 'Escape', text: 'Clear the search, then show everything' },
    { keys: '+ | -', text: 'Closer, farther' },
    { keys: 's', text: 'Callers and callees of the frame' },
    { keys: 'c', text: "Copy the frame's name" },
];
