// `sonde view`: an agent that shows profiles of files and watches nothing. Nothing is live there, and
// there is no history; pages leave out what they would have to ask for in vain.

let files = 0;

export function setViewing(count: number): void {
    files = count;
}

export function isViewing(): boolean {
    return files > 0;
}
