/* main.c - counts lines and bytes of its standard input, and says so to whoever watches. */
#include <sonde/sonde.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    const struct sonde_counter lines = sonde_counter("consumer_lines_total", "Lines read.");
    const struct sonde_hist bytes = sonde_hist("consumer_line_bytes", "Length of a line.", 1);
    char line[4096];

    SONDE_SCOPE("read all");
    while (fgets(line, sizeof(line), stdin)) {
        sonde_counter_add(lines, 1);
        sonde_hist_record(bytes, strlen(line));
    }
    return ferror(stdin) != 0;
}
