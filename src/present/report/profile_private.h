/* profile_private.h - the figures of a report, and who writes them. */
#ifndef SONDE_PRESENT_REPORT_PROFILE_PRIVATE_H
#define SONDE_PRESENT_REPORT_PROFILE_PRIVATE_H

#include "analyze/final_tracks.h"
#include "analyze/gpus.h"
#include "analyze/system.h"
#include "present/report/activity.h"
#include "present/report/engine.h"
#include "present/report/finding.h"
#include "present/report/gpu_section.h"
#include "present/report/heap.h"
#include "present/report/infer.h"
#include "present/report/ml.h"
#include "present/report/profile.h"
#include "present/table.h"
#include "profile/process.h"

struct sonde_comparison;

struct report_thread {
    uint32_t thread;           /* of the profile; 0 = unknown */
    uint64_t weight, samples, truncated;
};

struct report_span {
    uint32_t name;             /* string of the profile */
    uint64_t count, errors;
    uint64_t duration_ns_sum, duration_ns_max;
    uint64_t weight;           /* of samples inside a span of this name; a sample counts once */
};

struct report_module {
    uint32_t path, build_id;   /* strings of the profile */
    uint32_t flags;            /* SONDE_MODULE_… */
    uint64_t weight;           /* self */
};

struct report {
    const struct sonde_profile *p;
    const struct sonde_report_options *o;
    enum sonde_sample_kind kind;
    size_t limit;
    double share_min;
    struct sonde_profile_match *match;   /* of the filter */
    struct sonde_tree *tree;             /* NULL = there are no samples, nor what follows */
    struct sonde_flat *flat;
    size_t flat_count;
    uint64_t weight, samples, truncated; /* of what passes; samples are counts */
    struct sonde_stack_sums stacks;      /* the same, and why they are truncated */
    struct report_thread *threads;       /* those with samples, most weight first */
    size_t thread_count;
    struct sonde_profile_process *processes; /* most weight first */
    uint32_t process_count;
    struct report_span *spans;           /* by name, longest in all first */
    size_t span_count;
    struct report_module *modules;       /* that lack names or lines, most weight first */
    size_t module_count;
    struct heap_report heap;             /* its h is NULL: there is nothing to say of the heap */
    struct infer_report infer;           /* its run is NULL: nor of inference */
    struct gpu_report gpu;               /* its g is NULL: nor of GPUs */
    struct sonde_findings *findings;     /* NULL = the report is of a part, which has none */
    struct sonde_engine *inside;         /* devices, pools, tokenizers; NULL = nor of those */
    struct sonde_activity *activity;     /* operations, errors, caches, bandwidth; NULL alike */
    struct sonde_system *system;         /* the machine and its processes; NULL alike */
    struct sonde_gpus *gpus;             /* NULL = none was read */
    struct sonde_ml *ml;                 /* machine learning; NULL alike */
    struct sonde_final_part part;        /* what inside and activity are of, if it is a part */
    struct sonde_buf notes;              /* lines: what is not in it, and why */
};

/* part of r->weight, 0 … 1 */
static inline double report_share(const struct report *r, uint64_t part)
{
    return r->weight ? (double)part / (double)r->weight : 0;
}

/* Why a module's frames lack names or lines and what to do about it, with the package to install
 * where one is known; "" = nothing. */
enum { REPORT_ADVICE_MAX = 512 };
void report_module_advise(const struct report *r, const struct report_module *m, char *out,
                          size_t size);

/* ---- profile_lines.c: text and Markdown, by o->style --------------------------------- */

enum { REPORT_LINE_MAX = 4096 }; /* bytes of a line; longer ones are cut */

/* Text of any origin, made harmless; in Markdown what would be markup is escaped. */
void report_put_clean(struct sonde_buf *out, const char *text, int ascii);
void report_put_text(const struct sonde_report_options *o, struct sonde_buf *out,
                     const char *text);
/* A heading: of the report's parts (level 2) or of parts of those (3). */
void report_put_heading(const struct sonde_report_options *o, int level, const char *title,
                        struct sonde_buf *out);
/* A heading of level 2 and a table under it, or the table only; the table is released. */
void report_put_table(const struct sonde_report_options *o, const char *title,
                      struct sonde_table *t, struct sonde_buf *out);
void report_put_rows(const struct sonde_report_options *o, struct sonde_table *t,
                     struct sonde_buf *out);
/* "name: text" as a line. */
void report_put_fact(const struct sonde_report_options *o, struct sonde_buf *out, const char *name,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));
void report_percent_cell(struct sonde_table *t, size_t column, double share);
void report_where_cell(struct sonde_table *t, size_t column, const char *file, uint32_t line,
                       const char *module);

/* ---- Writers -------------------------------------------------------------------------------- */

void report_write_text(const struct report *r, struct sonde_buf *out);
void report_write_json(const struct report *r, struct sonde_buf *out);
void report_write_csv(const struct report *r, struct sonde_buf *out);
/* Draws what report_write_text has to say, and charts, as pages. 0, SONDE_ENOMEM or SONDE_EFULL. */
int report_write_pdf(struct report *r, struct sonde_buf *out, struct sonde_err *err);
/* Text that was put so far becomes a paragraph, and text is empty. */
void report_pdf_flush(struct sonde_pdf *pdf, struct sonde_buf *text);
void report_charts_pdf(const struct report *r, struct sonde_buf *out);
void report_findings_pdf(const struct report *r, struct sonde_buf *out);
/* What is not in the report, and why: a line for each. Nothing if there are none. */
void report_notes_text(const struct report *r, struct sonde_buf *out);
void report_notes_json(const struct report *r, struct sonde_buf *out);
void report_notes_csv(const struct report *r, struct sonde_buf *out);
/* gpus.c: the member "gpus" of an open object, and the same as tables; nothing if g is NULL. */
void report_gpus_json(const struct sonde_gpus *g, struct sonde_buf *out);
void report_gpus_text(const struct sonde_gpus *g, const struct sonde_report_options *o,
                      size_t limit, struct sonde_buf *out);

/* The member "system" of an open object, and the same as tables; nothing if s is NULL. */
void report_system_json(const struct sonde_system *s, struct sonde_buf *out);
void report_system_text(const struct sonde_system *s, const struct sonde_report_options *o,
                        size_t limit, struct sonde_buf *out);

/* ---- summary.c: the figures that matter most --------------------------------------------- */

struct report_summary {
    double seconds;
    uint64_t operations, errors;
    double operation_rate;                          /* per second; NaN = not known, as below */
    const struct sonde_activity_operation *slowest; /* by p95, or by its mean; NULL = none */
    uint64_t look_ups;
    double hit_ratio, in_rate, out_rate;
    double cpu_ratio, memory_ratio;                 /* of the machine */
    const struct sonde_system_one *busiest;         /* process; NULL = none */
    size_t severities[3];                           /* findings, by enum sonde_severity */
};
void report_summary_of(const struct report *r, struct report_summary *out);
void report_summary_text(const struct report *r, struct sonde_buf *out);
/* Members "summary" and, where there are findings, "recommendations". */
void report_summary_json(const struct report *r, struct sonde_buf *out);

/* The functions of a comparison as a table: those that have changed for sure, then those whose own
 * share of the total did most, then the largest. Shares are of each side's own total, so that a
 * longer recording is not a slower program; of memory, bytes are compared. As JSON they are members
 * of an object that is open. Nothing where a side has no samples. SONDE_ENOMEM. */
int report_put_functions(const struct sonde_comparison *compared,
                         const struct sonde_report_options *o, struct sonde_buf *out);

#endif
