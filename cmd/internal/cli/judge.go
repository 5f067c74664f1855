package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/manent/action/analysis"
	"github.com/manent/action/runner/config"
)

// judgeFlags are those of all ways to judge; judgeWays says which belong to
// which.
type judgeFlags struct {
	candidate, stable string
	csv               string
	log               logFlags
	replay            bool
	stage             string
	reading           int

	metric   config.Metric
	maxRatio float64
	minRatio float64
	method   string
}

// judgeWay is one of the four ways to judge, with the flags that it takes. The
// first ones choose it.
type judgeWay struct {
	choose, also []string
	call         string // how it is called
}

func judgeWays() []judgeWay {
	rule := []string{"direction", "max-ratio", "min-ratio", "alpha", "min-points", "method"}
	file := []string{"config", "descriptor"}
	return []judgeWay{
		{[]string{"candidate", "stable"}, append([]string{"name"}, rule...), "--candidate FILE --stable FILE"},
		{[]string{"csv"}, append(rule, file...), "--csv FILE"},
		{[]string{"access-log"}, logFlagNames(), "--access-log FILE --log-format FORMAT"},
		{[]string{"replay"}, append([]string{"state", "stage", "reading"}, file...), "--replay"},
	}
}

func (a *app) newJudge() *cobra.Command {
	var f judgeFlags
	cmd := &cobra.Command{
		Use:   "judge (--candidate FILE --stable FILE | --csv FILE | --access-log FILE --log-format FORMAT | --replay [FILE])",
		Short: "judge figures that are here already: files, a log, or a stored rollout",
		Long: `Judges without a rollout and asks nobody, for any pipeline. It ends with 0 for
pass, 1 for fail, 2 for not enough data, and 5 when it could not tell.

Two files with one number a line, - for a stream on stdin, are compared by the
rank test that a metric with analysis: mann-whitney is judged by. A blank line
or NaN is a gap; anything else that is no number is refused. --method exact is
for at most 10,000 pairs of points; beyond that p is normal, and said so.

--csv has the columns metric, track, time and value, in any order, and others
that are left alone. track is candidate or stable, time RFC 3339 or seconds
since 1970, value a number, or nothing or NaN for a gap. With -c each metric is
judged by its settings there, and health.analysis weighs them: a score below
pass fails, as it does at the end of a bake. What the file cannot say of a
metric of the configuration, counters of a sequential one among it, is
inconclusive.

--access-log is the three-way gate: PROMOTE, ABORT or WAIT. It counts the whole
of one log, as the metric system accesslog reads it, and needs --min-requests
of both tracks to promote, of the candidate to abort. Requests that the client
left (499) are none; a candidate whose part of them is above the stable's by
more than --max-extra-error waits. The p95 is the duration at place ⌊0.95·n⌋ of
n sorted ones; --max-latency-ratio 0 leaves it alone.

--replay judges the stored readings of the last rollout again, or the reading
in a file, and ends as the last of them that evaluated something. A verdict
that differs is an error.`,
		Example: `  manent judge --candidate canary.txt --stable stable.txt --max-ratio 1.1
  manent judge --csv series.csv -c envconfig/shop/web/prod.yml
  manent judge --access-log canary.log --log-format '$msec $status $backend $request_time'
  manent judge --replay --state file:./state --stage 25%`,
		Args: cobra.ArbitraryArgs,
	}
	f.flags(a.placeFlags(cmd))
	return a.verb(cmd, func(ctx context.Context, args []string) (view, error) {
		way, err := f.way(cmd.Flags().Changed, args)
		if err != nil {
			return view{}, err
		}
		switch way {
		case "csv":
			return a.judgeCSV(f)
		case "access-log":
			return a.judgeLog(ctx, f.log)
		case "replay":
			return a.judgeReplay(ctx, f, args)
		}
		return a.judgeSeries(f)
	})
}

func (f *judgeFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.candidate, "candidate", "", "`FILE` with the candidate's figures, one a line")
	flags.StringVar(&f.stable, "stable", "", "`FILE` with the stable's")
	flags.StringVar(&f.metric.Name, "name", "figures", "`NAME` of the metric in messages")
	flags.StringVar(&f.csv, "csv", "", "`FILE` with the columns metric, track, time and value")
	flags.StringVar(&f.metric.Direction, "direction", string(analysis.Increase), "what is worse: increase, decrease or either")
	flags.Float64Var(&f.maxRatio, "max-ratio", 1, "largest `RATIO` of means, candidate ÷ stable, that passes whatever the ranks say")
	flags.Float64Var(&f.minRatio, "min-ratio", 1, "smallest `RATIO` that does, for decrease and either")
	flags.Float64Var(&f.metric.Alpha, "alpha", 0.05, "significance `LEVEL`, between 0 and 1")
	flags.IntVar(&f.metric.MinPoints, "min-points", 5, "`NUMBER` of points of either side below which nothing is concluded")
	flags.StringVar(&f.method, "method", string(analysis.Normal), "of the p-value: normal or exact")
	f.log.flags(cmd)
	flags.BoolVar(&f.replay, "replay", false, "judge the last rollout's stored readings again, or the one in the FILE behind it")
	flags.StringVar(&f.stage, "stage", "", "`NAME` of the stage to replay, such as 25% (all)")
	flags.IntVar(&f.reading, "reading", 0, "`NUMBER` of its reading (all)")
}

// way is the one way to judge that the flags choose.
func (f *judgeFlags) way(changed func(flag string) bool, args []string) (string, error) {
	var chosen []judgeWay
	var calls []string
	for _, w := range judgeWays() {
		calls = append(calls, w.call)
		if slices.ContainsFunc(w.choose, changed) {
			chosen = append(chosen, w)
		}
	}
	if hint := "give one of " + strings.Join(calls, ", "); len(chosen) == 0 {
		return "", usage(hint, "there is nothing to judge")
	} else if len(chosen) > 1 {
		return "", usage(hint, "--%s and --%s exclude each other", chosen[0].choose[0], chosen[1].choose[0])
	}
	way := chosen[0].choose[0]
	if len(args) > 0 && way != "replay" {
		return "", usage("`manent judge --help` shows how it is called", "manent judge takes no argument with --%s, found %q", way, args[0])
	}
	for _, w := range judgeWays() {
		for _, flag := range slices.Concat(w.choose, w.also) {
			if changed(flag) && !slices.Contains(slices.Concat(chosen[0].choose, chosen[0].also), flag) {
				return "", usage("leave it out", "--%s has no effect with --%s", flag, way)
			}
		}
	}
	if changed("config") {
		for _, flag := range []string{"direction", "max-ratio", "min-ratio", "alpha", "min-points"} {
			if changed(flag) {
				return "", usage("leave it out, or leave -c out", "--%s has no effect with -c: the configuration says it", flag)
			}
		}
	}
	return way, f.check()
}

// check looks at the numbers of the rule.
func (f *judgeFlags) check() error {
	m := &f.metric
	switch {
	case !slices.Contains([]string{"increase", "decrease", "either"}, m.Direction):
		return usage("", "--direction is %q, expected increase, decrease or either", m.Direction)
	case !slices.Contains([]analysis.Method{analysis.Normal, analysis.Exact}, analysis.Method(f.method)):
		return usage("", "--method is %q, expected normal or exact", f.method)
	case !(m.Alpha > 0 && m.Alpha < 1):
		return usage("", "--alpha is %v, expected above 0 and below 1", m.Alpha)
	case m.MinPoints < 1:
		return usage("", "--min-points is %d, expected 1 or more", m.MinPoints)
	case f.reading < 0:
		return usage("", "--reading is %d, expected 1 or more", f.reading)
	}
	if !(f.maxRatio >= 1 && f.maxRatio <= 1e9) {
		return usage("a metric that has to be so much better needs a threshold, not a test", "--max-ratio is %v, expected 1 or more", f.maxRatio)
	}
	if !(f.minRatio > 0 && f.minRatio <= 1) {
		return usage("", "--min-ratio is %v, expected above 0 and at most 1", f.minRatio)
	}
	return nil
}

// rule is the rule of the flags, as a metric of that name.
func (f *judgeFlags) rule(name string) config.Metric {
	m := f.metric
	m.Name, m.Compare, m.Analysis, m.Weight = name, "stable", mannWhitney, 1
	m.MaxRatio, m.MinRatio = &f.maxRatio, &f.minRatio
	return m
}

// mannWhitney is the analysis that series are judged by.
const mannWhitney = "mann-whitney"

func (f *judgeFlags) methodOf() analysis.Method { return analysis.Method(f.method) }

func counted(n int, what string) string {
	if n == 1 {
		return fmt.Sprintf("1 %s", what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}
