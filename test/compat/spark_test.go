package compat

import (
	"context"
	"os"
	"path/filepath"
)

var sparkConsumer = consumer{name: "spark", title: "Spark Structured Streaming", needs: "spark-sql-kafka", resumes: true, skips: true,
	install: installSpark, expect: podColumns, read: spark}

var sparkLibs, sparkPackages string

func installSpark(ctx context.Context, base string) (version string, err error) {
	if sparkLibs, err = jars(ctx, base, "spark"); err != nil {
		return "", err
	}
	sparkPackages, err = pythonPackages(ctx, base, "spark")
	return pinned("spark", "spark-sql-kafka-0-10_2.13"), err
}

// spark runs the program that the exporter prints.
func spark(ctx context.Context, r reading) ([]row, error) {
	program, err := r.schema(ctx, "spark", "pods", "--columns", flinkColumns)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(r.dir, "program.py")
	if err := os.WriteFile(path, []byte(program), 0o644); err != nil {
		return nil, err
	}
	runner, err := r.place("spark.py", read("python/spark.py"))
	if err != nil {
		return nil, err
	}
	out, err := output(ctx, r.dir, []string{"PYTHONPATH=" + sparkPackages}, "python3", runner, path, r.dir, sparkLibs)
	if err != nil {
		return nil, err
	}
	return parseRows(out)
}
