package accesslog

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

// canary is the format of a log that names its backend.
const canary = `$msec $status $backend $request_time $http_x_user_id`

func nginxFields() Fields {
	return Fields{Time: "$msec", Status: "status", Track: "${backend}", Duration: "request_time", Unit: time.Second}
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	out, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestNginx(t *testing.T) {
	const combined = `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" $backend $request_time`
	local := nginxFields()
	local.Time = "time_local"
	untimed := nginxFields()
	untimed.Duration = ""
	when := at(t, "2026-11-30T12:00:00.123Z")
	good := Entry{At: when, Status: 200, Track: "canary", Took: time.Millisecond, Timed: true}
	whole := good
	whole.At = when.Truncate(time.Second)
	failed := whole
	failed.Status = 500
	plain := Entry{At: when, Status: 200, Track: "canary"}
	strange := func(status int) Entry {
		e := good
		e.Status = status
		return e
	}
	tests := []struct {
		name, format, line string
		fields             Fields
		want               Entry
		err                error
	}{
		{"as in the article", canary, `1796040000.123 200 canary 0.001 user-7`, nginxFields(), good, nil},
		{"nothing from the client", canary, `1796040000.123 200 canary 0.001 -`, nginxFields(), good, nil},
		{"a client with spaces", canary, `1796040000.123 200 canary 0.001 a b 500 c`, nginxFields(), good, nil},
		{"no duration", canary, `1796040000.123 200 canary - u`, nginxFields(), plain, nil},
		{"duration not in use", `$msec $status $backend`, `1796040000.123 200 canary`, untimed, plain, nil},
		{"combined with more", combined, `10.0.0.1 - - [30/Nov/2026:13:00:00 +0100] "GET / HTTP/1.1" 200 5 "-" canary 0.001`, local, whole, nil},
		{"a user with spaces", combined, `10.0.0.1 - a b [30/Nov/2026:13:00:00 +0100] "GET / HTTP/1.1" 200 5 "-" canary 0.001`, local, whole, nil},
		{"a forging user", combined, `10.0.0.1 - x [30/Nov/2026:13:00:00 +0100] \x22 200 5 \x22-\x22 stable 0.001 [30/Nov/2026:13:00:00 +0100] "GET / HTTP/1.1" 500 5 "-" canary 0.001`, local, failed, nil},
		{"no time behind a user", combined, `10.0.0.1 - x "GET / HTTP/1.1" 500 5 "-" canary 0.001`, local, Entry{}, errForm},
		{"braces and literals", `t=${msec};s=${status};b=${backend};d=${request_time};`, `t=1796040000.123;s=200;b=canary;d=0.001;`, nginxFields(), good, nil},
		{"more behind the last literal", `$msec $status $backend $request_time;`, `1796040000.123 200 canary 0.001; x`, nginxFields(), Entry{}, errForm},
		{"iso time", `$msec $status $backend $request_time`, `2026-11-30T13:00:00.123+01:00 200 canary 0.001`, nginxFields(), good, nil},
		{"client that left", `$msec $status $backend $request_time`, `1796040000.123 000 canary 0.001`, nginxFields(), Entry{At: when, Track: "canary", Took: time.Millisecond, Timed: true}, nil},
		{"no backend", canary, `1796040000.123 200 - 0.001 u`, nginxFields(), Entry{At: when, Status: 200, Track: "-", Took: time.Millisecond, Timed: true}, nil},
		{"half a line", canary, `1796040000.123 200 can`, nginxFields(), Entry{}, errForm},
		{"another format", canary, `10.0.0.1 - - [30/Nov/2026:13:00:00 +0100] "GET / HTTP/1.1" 200 5`, nginxFields(), Entry{}, errTime},
		{"another beginning", `log: ` + canary, `1796040000.123 200 canary 0.001 u`, nginxFields(), Entry{}, errForm},
		{"status of letters", canary, `1796040000.123 ok canary 0.001 u`, nginxFields(), Entry{}, errStatus},
		{"status above HTTP's", canary, `1796040000.123 999 canary 0.001 u`, nginxFields(), strange(999), nil},
		{"status just above HTTP's", canary, `1796040000.123 600 canary 0.001 u`, nginxFields(), strange(600), nil},
		{"status below HTTP's", canary, `1796040000.123 20 canary 0.001 u`, nginxFields(), strange(20), nil},
		{"status of HTTP/0.9", canary, `1796040000.123 009 canary 0.001 u`, nginxFields(), strange(9), nil},
		{"status too long", canary, `1796040000.123 2000 canary 0.001 u`, nginxFields(), Entry{}, errStatus},
		{"status with a sign", canary, `1796040000.123 -20 canary 0.001 u`, nginxFields(), Entry{}, errStatus},
		{"status missing", canary, `1796040000.123  canary 0.001 u`, nginxFields(), Entry{}, errStatus},
		{"negative duration", canary, `1796040000.123 200 canary -0.001 u`, nginxFields(), Entry{}, errDuration},
		{"duration of several attempts", canary, `1796040000.123 200 canary 0.001,0.002 u`, nginxFields(), Entry{}, errDuration},
		{"duration of a year and more", canary, `1796040000.123 200 canary 40000000 u`, nginxFields(), Entry{}, errDuration},
		{"milliseconds for seconds", canary, `1796040000123 200 canary 0.001 u`, nginxFields(), Entry{}, errTime},
		{"time zero", canary, `0.000 200 canary 0.001 u`, nginxFields(), Entry{}, errTime},
		{"time with a sign", canary, `-1796040000.123 200 canary 0.001 u`, nginxFields(), Entry{}, errTime},
		{"time with a bare dot", canary, `1796040000. 200 canary 0.001 u`, nginxFields(), Entry{}, errTime},
		{"impossible day", combined, `10.0.0.1 - - [31/Feb/2026:13:00:00 +0100] "GET /" 200 5 "-" canary 0.001`, local, Entry{}, errTime},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			parse, err := Nginx(tt.format, tt.fields)
			if err != nil {
				t.Fatal(err)
			}
			got, err := parse([]byte(tt.line))
			if !errors.Is(err, tt.err) || !same(got, tt.want) {
				t.Errorf("%+v, error %v; want %+v, error %v", got, err, tt.want, tt.err)
			}
		})
	}
}

func same(a, b Entry) bool {
	eq := a.At.Equal(b.At)
	a.At, b.At = time.Time{}, time.Time{}
	return eq && a == b
}

func TestNginxRefusesFormats(t *testing.T) {
	tests := map[string]string{
		``:                                       "no variables",
		`a b c`:                                  "no variables",
		`$msec ${status $backend $request_time`:  "without",
		`$msec $status $backend ${request_time`:  "${ without }",
		`$msec $ $status $backend $request_time`: "without the name",
		`$msec $status $backend`:                 "no $request_time, only $msec, $status, $backend",
		`$status $backend $request_time`:         "no $msec",
		`$msec$status $backend $request_time`:    "nothing between $msec and $status",
		`$http_x_user_id $msec $status $backend $request_time`: "$http_x_user_id, which a client fills, unquoted in front of $request_time",
		`$msec $status $request $backend $request_time`:        "$request, which a client fills",
		`$msec $status $backend $arg_v $request_time`:          "$arg_v",
		`$msec $status $backend $cookie_v - $request_time`:     "$cookie_v",
		`$msec $remote_user $status $backend $request_time`:    "$remote_user",
		`$uri [$args] "$msec" $status $backend $request_time`:  "$uri",
	}
	for format, want := range tests {
		t.Run(format, func(t *testing.T) {
			if _, err := Nginx(format, nginxFields()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q in it", err, want)
			}
		})
	}
	local := nginxFields()
	local.Time = "time_local"
	if _, err := Nginx(`$time_local $status $backend $request_time`, local); err == nil || !strings.Contains(err.Error(), "brackets") {
		t.Errorf("error %v, want $time_local refused where it cannot be told from the rest", err)
	}
	if _, err := Nginx(`$msec "$request" $status "$http_x" $backend $request_time $uri`, nginxFields()); err != nil {
		t.Errorf("quoted in front and unquoted at the end: %v", err)
	}
}

func TestJSON(t *testing.T) {
	when := at(t, "2026-11-30T12:00:00.123Z")
	good := Entry{At: when, Status: 200, Track: "b", Took: time.Millisecond, Timed: true}
	plain := Entry{At: when, Status: 200, Track: "b"}
	millis := Proxy()
	millis.Unit = time.Millisecond
	tests := []struct {
		name, line string
		fields     Fields
		want       Entry
		err        error
	}{
		{"as the proxy has it", `{"time":"2026-11-30T12:00:00.123Z","status":200,"slot":"b","duration":0.001}`, Proxy(), good, nil},
		{"seconds", `{"time":1796040000.123,"status":200,"slot":"b","duration":1e-3}`, Proxy(), good, nil},
		{"quoted, with spaces and others", ` { "x" : {"slot":"z","a":[1,{}]} , "time" : "1796040000.123", "y":[],"status":"200","z":null , "slot" : "b","duration":"0.001"} `, Proxy(), good, nil},
		{"milliseconds", `{"time":1796040000.123,"status":200,"slot":"b","duration":1}`, millis, good, nil},
		{"escapes", `{"ti\u006de":1796040000.123,"status":200,"slot":"\u0062","q":"\\\"}{","duration":0.001}`, Proxy(), good, nil},
		{"the last of two counts", `{"slot":"a","time":1796040000.123,"status":200,"slot":"b","duration":0.001}`, Proxy(), good, nil},
		{"no duration", `{"time":1796040000.123,"status":200,"slot":"b"}`, Proxy(), plain, nil},
		{"null duration", `{"time":1796040000.123,"status":200,"slot":"b","duration":null}`, Proxy(), plain, nil},
		{"dash for duration", `{"time":1796040000.123,"status":200,"slot":"b","duration":"-"}`, Proxy(), plain, nil},
		{"no track", `{"time":1796040000.123,"status":200}`, Proxy(), Entry{At: when, Status: 200}, nil},
		{"track in another", `{"time":1796040000.123,"status":200,"x":{"slot":"b"}}`, Proxy(), Entry{At: when, Status: 200}, nil},
		{"no time", `{"status":200,"slot":"b"}`, Proxy(), Entry{}, errTime},
		{"null time", `{"time":null,"status":200,"slot":"b"}`, Proxy(), Entry{}, errTime},
		{"status no server has", `{"time":1796040000.123,"status":999,"slot":"b"}`, Proxy(), Entry{At: when, Status: 999, Track: "b"}, nil},
		{"no status", `{"time":1796040000.123,"slot":"b"}`, Proxy(), Entry{}, errStatus},
		{"status true", `{"time":1796040000.123,"status":true,"slot":"b"}`, Proxy(), Entry{}, errStatus},
		{"fraction of a status", `{"time":1796040000.123,"status":200.5,"slot":"b"}`, Proxy(), Entry{}, errStatus},
		{"track is an object", `{"time":1796040000.123,"status":200,"slot":{"a":1}}`, Proxy(), Entry{}, errTrack},
		{"duration below 0", `{"time":1796040000.123,"status":200,"slot":"b","duration":-1}`, Proxy(), Entry{}, errDuration},
		{"duration in hexadecimal", `{"time":1796040000.123,"status":200,"slot":"b","duration":"0x1p-2"}`, Proxy(), Entry{}, errDuration},
		{"duration infinite", `{"time":1796040000.123,"status":200,"slot":"b","duration":"1e999"}`, Proxy(), Entry{}, errDuration},
		{"empty", ``, Proxy(), Entry{}, errJSON},
		{"cut off", `{"time":1796040000.123,"status":200,"slo`, Proxy(), Entry{}, errJSON},
		{"a list", `[1]`, Proxy(), Entry{}, errJSON},
		{"a number", `1`, Proxy(), Entry{}, errJSON},
		{"two objects", `{} {}`, Proxy(), Entry{}, errJSON},
		{"empty object", `{}`, Proxy(), Entry{}, errTime},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			parse, err := JSON(tt.fields)
			if err != nil {
				t.Fatal(err)
			}
			got, err := parse([]byte(tt.line))
			if !errors.Is(err, tt.err) || !same(got, tt.want) {
				t.Errorf("%+v, error %v; want %+v, error %v", got, err, tt.want, tt.err)
			}
		})
	}
	if _, err := JSON(Fields{Time: "t", Status: "s"}); err == nil {
		t.Error("no field for the track, want an error")
	}
}

// FuzzNginx: no format and line break the parser, and what it reads is in range.
func FuzzNginx(f *testing.F) {
	f.Add(canary, `1796040000.123 200 canary 0.001 user-7`)
	f.Add(`${msec}|${status}|${backend}|${request_time}|`, `1796040000.123|200|canary|0.001|`)
	f.Add(`[$msec] "$status" $backend $request_time "$http_x"`, `[30/Nov/2026:13:00:00 +0100] "500" b 1 "x"`)
	f.Add(`$`, ``)
	f.Fuzz(func(t *testing.T, format, line string) {
		parse, err := Nginx(format, nginxFields())
		if err != nil {
			return
		}
		if e, err := parse([]byte(line)); err == nil {
			inRange(t, e)
			if e.Track != "" && !strings.Contains(line, e.Track) {
				t.Errorf("track %q is not in the line", e.Track)
			}
		} else if !same(e, Entry{}) {
			t.Errorf("entry %+v with error %v", e, err)
		}
	})
}

func inRange(t *testing.T, e Entry) {
	t.Helper()
	if e.At.Unix() < 0 || e.At.IsZero() || e.Took < 0 || e.Took > 366*24*time.Hour || e.Status < 0 || e.Status > 999 {
		t.Errorf("out of range: %+v", e)
	}
}

// FuzzJSON compares with encoding/json.
func FuzzJSON(f *testing.F) {
	f.Add(`{"time":"2026-11-30T12:00:00.123Z","status":200,"slot":"b","duration":0.001}`)
	f.Add(`{"x":{"slot":"z"},"time":1796040000.123,"status":"200","slot":"\u0062","a":[1,"]"]}`)
	f.Add(`{"":"\\","time":1,"status":0,"slot":null}`)
	parse, err := JSON(Proxy())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, line string) {
		got, err := parse([]byte(line))
		var object map[string]json.RawMessage
		if json.Unmarshal([]byte(line), &object) != nil || object == nil {
			if err == nil {
				t.Fatalf("%+v out of no object", got)
			}
			return
		}
		if err != nil {
			return
		}
		inRange(t, got)
		var track string
		if raw, ok := object["slot"]; ok && raw[0] == '"' {
			if err := json.Unmarshal(raw, &track); err != nil {
				t.Fatal(err)
			}
		} else if ok && !bytes.Equal(raw, []byte("null")) {
			track = string(raw)
		}
		if got.Track != track && !repeated(line) {
			t.Errorf("track %q, want %q", got.Track, track)
		}
	})
}

// repeated: with a key twice, one of them null, encoding/json has the null.
func repeated(line string) bool {
	return strings.Count(line, "slot") > 1 || strings.Contains(line, `\u`)
}

func BenchmarkNginx(b *testing.B) {
	parse, err := Nginx(canary, nginxFields())
	bench(b, parse, err, `1796040000.123 200 canary 0.001 2f1d6c1e-6c1b-4b57-9d54-3f4d0f5c8d11`)
}

func BenchmarkJSON(b *testing.B) {
	parse, err := JSON(Proxy())
	bench(b, parse, err, `{"time":"2026-11-30T12:00:00.123Z","method":"GET","path":"/api/books/42","status":200,"slot":"b","upstream":"10.0.1.10:8080","duration":0.001,"bytes":5120}`)
}

func bench(b *testing.B, parse Parser, err error, line string) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
	text := []byte(line)
	b.ReportAllocs()
	b.SetBytes(int64(len(text)) + 1)
	for b.Loop() {
		if _, err := parse(text); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}
