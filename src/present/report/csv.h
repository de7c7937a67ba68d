/* csv.h - one long table that spreadsheets and data frames pivot:
 *
 *   section,program,pid,name,detail,figure,value,unit,text
 *
 * A row is one figure of one thing. value is a number or empty, text what is not a number. RFC
 * 4180: CRLF, quotes where needed. Text that a spreadsheet would take for a formula gets an
 * apostrophe in front (OWASP, "CSV injection"); numbers are left alone. Private to src/present/. */
#ifndef SONDE_PRESENT_REPORT_CSV_H
#define SONDE_PRESENT_REPORT_CSV_H

#include <stdint.h>

#include "base/buf.h"

struct report_csv {
    struct sonde_buf *out;
    const char *section;
    const char *program, *name, *detail; /* NULL = empty */
    uint32_t pid;                        /* 0 = empty */
};

void report_csv_head(struct sonde_buf *out);
/* Nothing for what is not finite. */
void report_csv_num(const struct report_csv *c, const char *figure, double value, const char *unit);
void report_csv_u64(const struct report_csv *c, const char *figure, uint64_t value,
                    const char *unit);
void report_csv_text(const struct report_csv *c, const char *figure, const char *text);

#endif
