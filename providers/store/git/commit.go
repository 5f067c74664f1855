package git

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/manent/action/providers/api/gitcli"
	"github.com/manent/action/providers/store"
)

const (
	identity = "manent <manent@localhost>"
	trailer  = "\n\nManent-Write: " // makes every commit another one, whatever it holds
)

// commit makes the commit of a change upon a parent in the scratch repository.
func (s *Store) commit(ctx context.Context, change store.Change, parent head) (made head, err error) {
	names, prefixes := escaped(change)
	folders, err := s.folders(ctx, parent, append(slices.Collect(maps.Keys(names)), prefixes...))
	if err != nil {
		return head{}, err
	}
	for _, prefix := range prefixes {
		folders.Remove(prefix)
	}
	for name, data := range names {
		id, err := gitcli.WriteObject(s.scratch, "blob", data)
		if err != nil {
			return head{}, err
		}
		folders.Set(name, gitcli.FileMode, id)
	}
	tree, err := folders.Write(s.scratch)
	if err != nil {
		return head{}, err
	}
	text := "tree " + tree + "\n"
	if parent.commit != "" {
		text += "parent " + parent.commit + "\n"
	}
	who := fmt.Sprintf("%s %d +0000", identity, time.Now().Unix())
	text += "author " + who + "\ncommitter " + who + "\n\n" + change.Note + trailer + rand.Text() + "\n"
	commit, err := gitcli.WriteObject(s.scratch, "commit", []byte(text))
	return head{commit: commit, root: folders[gitcli.Top], data: append([]byte{}, change.Data...)}, err
}

// escaped gives the files of a change and the folders it drops, as paths of
// the tree. Check has found that all can be escaped.
func escaped(change store.Change) (files map[string][]byte, folders []string) {
	files = map[string][]byte{document: change.Data}
	for name, data := range change.Objects {
		if p, err := store.EscapeName(name); err == nil {
			files[p] = data
		}
	}
	for _, prefix := range change.Drop {
		if p, err := store.EscapePrefix(prefix); err == nil {
			folders = append(folders, strings.TrimSuffix(p, "/"))
		}
	}
	return files, folders
}

// folders reads the folders above some paths from a commit: by one process,
// unless it is the top alone, which is known.
func (s *Store) folders(ctx context.Context, from head, paths []string) (gitcli.Folders, error) {
	found := gitcli.Folders{}
	for _, p := range paths {
		for p != gitcli.Top {
			p = path.Dir(p)
			found[p] = nil
		}
	}
	if from.commit == "" || len(found) == 1 {
		found[gitcli.Top] = from.root
		return found, nil
	}
	names := slices.Sorted(maps.Keys(found))
	specs := make([]string, len(names))
	for i, name := range names {
		specs[i] = from.commit + ":" + strings.TrimPrefix(name, gitcli.Top)
	}
	objects, err := s.show(ctx, specs...)
	for i := 0; i < len(objects) && err == nil; i++ {
		if objects[i].Kind == "tree" {
			found[names[i]], err = gitcli.ParseTree(objects[i].Data)
		}
	}
	return found, err
}
