// Boxes of a few pixels: a large profile has thousands in sight, and a canvas takes its time for each
// rectangle. They are written into an image instead, one line of pixels for each row of frames, and
// the lines are drawn as high as a row.

const OVER = 0.3;

export class Slivers {
    private readonly canvas = document.createElement('canvas');
    private readonly context = this.canvas.getContext('2d')!;
    private image: ImageData | null = null;
    private pixels = new Uint32Array(0);
    private used = new Uint8Array(0); // by row
    private width = 0;                // pixels of a line
    private scale = 1;                // pixels of the canvas by those of the page
    private base = 0;                 // offset of the row's line
    private row = 0;
    private readonly known = new Map<string, number>();
    private readonly probe = document.createElement('canvas').getContext('2d', { willReadFrequently: true })!;

    /** A new picture with so many rows. */
    begin(target: HTMLCanvasElement, ratio: number, rows: number): void {
        this.scale = ratio;
        if (this.width !== target.width || this.used.length < rows) {
            this.width = target.width;
            this.canvas.width = this.width;
            this.canvas.height = rows;
            this.image = this.context.createImageData(this.width, rows);
            this.pixels = new Uint32Array(this.image.data.buffer);
            this.used = new Uint8Array(rows);
        } else {
            this.pixels.fill(0);
            this.used.fill(0);
        }
    }

    beginRow(row: number): void {
        this.row = row;
        this.base = row * this.width;
    }

    /** over: a second colour, lighter, as a pattern of both looks from afar. */
    add(x0: number, x1: number, color: string, over = ''): void {
        const left = Math.max(0, Math.floor(x0 * this.scale));
        const right = Math.min(this.width, Math.max(left + 1, Math.round(x1 * this.scale)));
        if (left >= right || !this.image) return;
        const at = this.base + left;
        const { data } = this.image;
        const covered = 255 * (x1 - x0) * this.scale;
        // Less than a pixel is paler, so that what is sparse looks sparse.
        const alpha = covered < 255 ? Math.min(255, data[4 * at + 3] + covered) : 255;
        this.pixels.fill(this.rgba(color, over), at, this.base + right);
        if (alpha < 255) data[4 * at + 3] = alpha;
        this.used[this.row] = 1;
    }

    /** All that were added; where a row is, and how visible, the caller says. */
    draw(to: CanvasRenderingContext2D, width: number, height: number, y: (row: number) => number, alpha: (row: number) => number): void {
        if (!this.image || !this.used.includes(1)) return;
        this.context.putImageData(this.image, 0, 0);
        to.imageSmoothingEnabled = false;
        for (let row = 0; row < this.used.length; row++) {
            if (!this.used[row]) continue;
            to.globalAlpha = alpha(row);
            to.drawImage(this.canvas, 0, row, this.width, 1, 0, y(row), width, height);
        }
        to.globalAlpha = 1;
    }

    // A style as an image has it, whatever way it is written.
    private rgba(color: string, over: string): number {
        const key = over ? `${color} ${over}` : color;
        let v = this.known.get(key);
        if (v === undefined) {
            this.probe.clearRect(0, 0, 1, 1);
            this.probe.fillStyle = color;
            this.probe.fillRect(0, 0, 1, 1);
            if (over) {
                this.probe.globalAlpha = OVER;
                this.probe.fillStyle = over;
                this.probe.fillRect(0, 0, 1, 1);
                this.probe.globalAlpha = 1;
            }
            [v] = new Uint32Array(this.probe.getImageData(0, 0, 1, 1).data.buffer);
            this.known.set(key, v);
        }
        return v;
    }
}
