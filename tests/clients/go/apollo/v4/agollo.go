// Package agollo is version 4 of Apollo's client for Go, as the program above drives it.
package agollo

import (
	"github.com/apolloconfig/agollo/v4"
	"github.com/apolloconfig/agollo/v4/component/log"
	"github.com/apolloconfig/agollo/v4/env/config"
	"github.com/apolloconfig/agollo/v4/storage"
)

type listener struct{ tell func() }

func (l listener) OnChange(*storage.ChangeEvent)           {}
func (l listener) OnNewestChange(*storage.FullChangeEvent) { l.tell() }

// Watch starts a client and calls tell with every state that it holds, the first one before it returns.
func Watch(url, app, cluster, namespace, cache, secret, label string, logger log.LoggerInterface, tell func(map[string]any)) error {
	settings := &config.AppConfig{
		AppID: app, Cluster: cluster, IP: url, NamespaceName: namespace, Secret: secret, Label: label,
		IsBackupConfig: true, BackupConfigPath: cache,
	}
	agollo.SetLogger(logger)
	client, err := agollo.StartWithConfig(func() (*config.AppConfig, error) { return settings, nil })
	if err != nil {
		return err
	}
	held := func() {
		values := map[string]any{}
		if cached := client.GetConfigCache(namespace); cached != nil {
			cached.Range(func(key, value any) bool {
				values[key.(string)] = value
				return true
			})
		}
		tell(values)
	}
	client.AddChangeListener(listener{held})
	held()
	return nil
}
